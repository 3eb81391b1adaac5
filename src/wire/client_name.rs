//! What a connection is called on the server (CLIENT SETNAME, CLIENT SETINFO), made from a template.

use std::fmt;
use std::net::SocketAddr;

/// The longest name that is made: one line of CLIENT LIST and of the server's log stays readable.
const NAME_BYTES_MAX: usize = 256;

/// The longest template.
const TEMPLATE_BYTES_MAX: usize = 128;

/// What stands in the place of what is not known of a client.
const UNKNOWN: &str = "-";

/// A name with places for what is known of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Place(Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Address,
    CommonName,
    ServerName,
}

/// The places as templates write them.
const PLACES: [(&str, Place); 3] =
    [("client_addr", Place::Address), ("client_cn", Place::CommonName), ("sni", Place::ServerName)];

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts<'a> {
    /// Its address.
    pub address: Option<SocketAddr>,
    /// The common name in its certificate.
    pub common_name: Option<&'a str>,
    /// The name that it has asked for.
    pub server_name: Option<&'a str>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it, to stand behind it in a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("is not a text of 1 to {TEMPLATE_BYTES_MAX} bytes"));
        }
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("has {odd:?}, which servers take in no name: they take ASCII without blanks"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, after) = behind.split_once('}').ok_or("has a { without a }")?;
            let place = PLACES.iter().find(|(known, _)| *known == name);
            let Some((_, place)) = place else {
                return Err(format!("has {{{name}}}; there are {{client_addr}}, {{client_cn}} and {{sni}}"));
            };
            parts.push(Part::Text(before.into()));
            parts.push(Part::Place(*place));
            rest = after;
        }
        parts.push(Part::Text(rest.into()));
        if parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains('}'))) {
            return Err("has a } without a {".to_owned());
        }
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self { parts })
    }

    /// Whether the name of a client's certificate is in it.
    #[must_use]
    pub fn names_certificate(&self) -> bool {
        self.parts.contains(&Part::Place(Place::CommonName))
    }

    /// The name of a client: ASCII without blanks, whatever is known of it. What servers do not take stands as `_`, and
    /// what is not known as `-`.
    #[must_use]
    pub fn name(&self, facts: &ClientFacts<'_>) -> String {
        let fit = |text: &str| -> String { text.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect() };
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Place(Place::Address) => {
                    name.push_str(&facts.address.map_or_else(|| UNKNOWN.to_owned(), |address| address.to_string()));
                }
                Part::Place(Place::CommonName) => name.push_str(&fit(facts.common_name.unwrap_or(UNKNOWN))),
                Part::Place(Place::ServerName) => name.push_str(&fit(facts.server_name.unwrap_or(UNKNOWN))),
            }
        }
        name.truncate(NAME_BYTES_MAX);
        name
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Place(place) => {
                let (name, _) = PLACES.iter().find(|(_, known)| known == place).expect("every place has a name");
                write!(f, "{{{name}}}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(template: &str, facts: &ClientFacts<'_>) -> String {
        Template::parse(template).unwrap().name(facts)
    }

    #[test]
    fn a_name_has_what_is_known_in_its_places() {
        let facts = ClientFacts {
            address: Some("192.0.2.7:56324".parse().unwrap()),
            common_name: Some("worker 7"),
            server_name: Some("valkey.example"),
        };
        assert_eq!(name("tls:{client_addr}", &facts), "tls:192.0.2.7:56324");
        assert_eq!(name("{client_cn}@{sni}", &facts), "worker_7@valkey.example");
        assert_eq!(name("fixed", &facts), "fixed");
        assert_eq!(name("{client_addr}/{client_cn}/{sni}", &ClientFacts::default()), "-/-/-");
        let facts = ClientFacts { address: Some("[2001:db8::7]:1".parse().unwrap()), ..facts };
        assert_eq!(name("{client_addr}", &facts), "[2001:db8::7]:1");
    }

    #[test]
    fn a_template_that_is_none_is_told_why() {
        for (template, problem) in [
            ("", "is not a text of 1 to 128 bytes"),
            ("a b", "has ' ', which servers take in no name: they take ASCII without blanks"),
            ("ä", "has 'ä', which servers take in no name: they take ASCII without blanks"),
            ("a{", "has a { without a }"),
            ("a}", "has a } without a {"),
            ("{cn}", "has {cn}; there are {client_addr}, {client_cn} and {sni}"),
            ("{}", "has {}; there are {client_addr}, {client_cn} and {sni}"),
        ] {
            assert_eq!(Template::parse(template), Err(problem.to_owned()), "{template}");
        }
        assert_eq!(Template::parse(&"x".repeat(129)), Err("is not a text of 1 to 128 bytes".to_owned()));
        assert!(Template::parse(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn a_template_is_shown_as_it_was_written() {
        for text in ["tls:{client_addr}", "{client_cn}{sni}", "fixed"] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn whatever_a_certificate_says_servers_take_the_name(common_name in "\\PC*|[\\x00-\\x7f]*", text in "[!-z]{0,40}") {
            let facts = ClientFacts { common_name: Some(&common_name), ..ClientFacts::default() };
            let name = name(&format!("{text}{{client_cn}}"), &facts);
            // The rule of CLIENT SETNAME: characters from ! to ~.
            prop_assert!(name.bytes().all(|byte| (b'!'..=b'~').contains(&byte)));
            prop_assert!(name.len() <= 256);
        }
    }
}
