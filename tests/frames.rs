//! The framer of requests and replies: examples from the specification, and what holds for any stream in any pieces.

#[path = "frames/reference.rs"]
mod reference;

use proptest::prelude::*;
use ringwall::wire::frame::{Form, Kind, Malformed, Reply, ReplyFramer, Request, RequestFramer};

/// Frames in `stream` when it comes in pieces that end at `cuts`: where each ends in the stream, what it is, and the
/// error at the end, if there is one.
fn cut<Frame>(
    stream: &[u8],
    cuts: &[usize],
    mut advance: impl FnMut(&[u8]) -> Result<Option<Frame>, Malformed>,
    end: impl Fn(&mut Frame) -> &mut usize,
) -> (Vec<Frame>, Option<Malformed>) {
    let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).chain([0, stream.len()]).collect();
    bounds.sort_unstable();
    let mut frames = Vec::new();
    for pair in bounds.windows(2) {
        let mut at = pair[0];
        while at < pair[1] {
            match advance(&stream[at..pair[1]]) {
                Ok(Some(mut frame)) => {
                    assert!(*end(&mut frame) > 0, "every frame takes bytes");
                    at += *end(&mut frame);
                    *end(&mut frame) = at;
                    frames.push(frame);
                }
                Ok(None) => at = pair[1],
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn requests(stream: &[u8], cuts: &[usize]) -> (Vec<Request>, Option<Malformed>) {
    let mut framer = RequestFramer::new();
    cut(stream, cuts, |bytes| framer.advance(bytes), |frame| &mut frame.end)
}

fn replies(stream: &[u8], cuts: &[usize]) -> (Vec<Reply>, Option<Malformed>) {
    let mut framer = ReplyFramer::new();
    cut(stream, cuts, |bytes| framer.advance(bytes), |frame| &mut frame.end)
}

fn whole_reply(stream: &[u8]) -> Result<Option<Reply>, Malformed> {
    ReplyFramer::new().advance(stream)
}

#[test]
fn a_request_ends_behind_its_last_argument() {
    let stream = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPING\r\nPING\r\n";
    let expected = [
        Request { end: 22, form: Form::Array(2) },
        Request { end: 36, form: Form::Array(1) },
        Request { end: 42, form: Form::Inline },
    ];
    assert_eq!(requests(stream, &[]), (expected.to_vec(), None));
}

#[test]
fn arguments_hold_any_bytes_and_none() {
    let stream = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$6\r\n\r\n*1\r\n\r\n";
    assert_eq!(requests(stream, &[]).0, [Request { end: 31, form: Form::Array(3) }]);
}

#[test]
fn a_request_of_no_arguments_is_a_frame_of_its_own() {
    let (frames, error) = requests(b"*0\r\n*-1\r\n\r\n\n", &[]);
    let forms: Vec<_> = frames.iter().map(|frame| frame.form).collect();
    assert_eq!(forms, [Form::Array(0), Form::Array(0), Form::Inline, Form::Inline]);
    assert_eq!(error, None);
}

#[test]
fn what_a_server_may_read_in_another_way_is_no_request() {
    let cases: &[(&[u8], Malformed)] = &[
        (b"*02\r\n", Malformed::Length),
        (b"*+2\r\n", Malformed::Length),
        (b"*-0\r\n", Malformed::Length),
        (b"*--1\r\n", Malformed::Length),
        (b"*\r\n", Malformed::Length),
        (b"* 1\r\n", Malformed::Length),
        (b"*1\n", Malformed::Length),
        (b"*1\rx", Malformed::LineEnd),
        (b"*1\r\n:", Malformed::Argument),
        (b"*1\r\n$-1\r\n", Malformed::Length),
        (b"*01\r\n$4\r\nPING\r\n", Malformed::Length),
        (b"*1\r\n$04\r\nPING\r\n", Malformed::Length),
        (b"*1\r\n$1\r\nabc", Malformed::LineEnd),
        (b"*1\r\n$1\r\na\rc", Malformed::LineEnd),
    ];
    for (stream, expected) in cases {
        assert_eq!(requests(stream, &[]).1, Some(*expected), "{}", stream.escape_ascii());
    }
}

#[test]
fn requests_are_bounded_as_the_servers_bound_them() {
    assert_eq!(requests(b"*1048576\r\n", &[]), (vec![], None));
    assert_eq!(requests(b"*1048577\r\n", &[]).1, Some(Malformed::TooLong));
    assert_eq!(requests(b"*1\r\n$536870912\r\n", &[]), (vec![], None));
    assert_eq!(requests(b"*1\r\n$536870913\r\n", &[]).1, Some(Malformed::TooLong));
    assert_eq!(requests(b"*1\r\n$18446744073709551617\r\n", &[]).1, Some(Malformed::TooLong));
    let mut line = vec![b'a'; 65_535];
    assert_eq!(requests(&line, &[1_000]), (vec![], None));
    line.push(b'\n');
    assert_eq!(requests(&line, &[1_000]).0, [Request { end: 65_536, form: Form::Inline }]);
    line.insert(0, b'a');
    assert_eq!(requests(&line, &[1_000]).1, Some(Malformed::Inline));
}

#[test]
fn a_framer_knows_how_much_of_an_argument_is_missing() {
    let mut framer = RequestFramer::new();
    assert!(framer.is_between());
    assert_eq!(framer.advance(b"*2\r\n$3\r\nSET\r\n$1000\r\nabc"), Ok(None));
    assert!(!framer.is_between());
    assert_eq!(framer.missing(), 999);
}

#[test]
fn every_type_of_the_specification_is_a_reply() {
    let cases: &[(&[u8], Kind)] = &[
        (b"+OK\r\n", Kind::Status),
        (b"-ERR unknown command\r\n", Kind::Error),
        (b":-1000\r\n", Kind::Value),
        (b"$5\r\nhello\r\n", Kind::Value),
        (b"$0\r\n\r\n", Kind::Value),
        (b"$-1\r\n", Kind::Value),
        (b"*-1\r\n", Kind::Value),
        (b"*0\r\n", Kind::Value),
        (b"*3\r\n$3\r\nfoo\r\n$-1\r\n*1\r\n:1\r\n", Kind::Value),
        (b"_\r\n", Kind::Value),
        (b"#t\r\n", Kind::Value),
        (b",3.14\r\n", Kind::Value),
        (b",inf\r\n", Kind::Value),
        (b"(3492890328409238509324850943850943825024385\r\n", Kind::Value),
        (b"!21\r\nSYNTAX invalid syntax\r\n", Kind::Error),
        (b"=15\r\ntxt:Some string\r\n", Kind::Value),
        (b"%2\r\n+first\r\n:1\r\n+second\r\n*2\r\n:2\r\n:3\r\n", Kind::Value),
        (b"~2\r\n+orange\r\n#f\r\n", Kind::Value),
        (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", Kind::Push),
        (b"|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n", Kind::Value),
        (b"|0\r\n-ERR no\r\n", Kind::Error),
        (b"*2\r\n:1\r\n|1\r\n+ttl\r\n:3600\r\n+x\r\n", Kind::Value),
    ];
    for (stream, kind) in cases {
        let expected = Reply { end: stream.len(), kind: *kind };
        assert_eq!(whole_reply(stream), Ok(Some(expected)), "{}", stream.escape_ascii());
        assert_eq!(whole_reply(&stream[..stream.len() - 1]), Ok(None), "{}", stream.escape_ascii());
    }
}

#[test]
fn what_is_no_reply_is_said_to_be_none() {
    let cases: &[(&[u8], Malformed)] = &[
        (b"HTTP/1.1 200 OK\r\n", Malformed::Type(b'H')),
        (b"*1\r\n\r\n", Malformed::Type(b'\r')),
        (b"*1\r\n>0\r\n", Malformed::NestedPush),
        (b"$?\r\n", Malformed::Length),
        (b"*?\r\n", Malformed::Length),
        (b"$-2\r\n", Malformed::Length),
        (b"%-1\r\n", Malformed::Length),
        (b"$4294967296\r\n", Malformed::TooLong),
        (b"+a\nb\r\n", Malformed::LineEnd),
        (b"+a\rb\r\n", Malformed::LineEnd),
        (b"$1\r\nabc", Malformed::LineEnd),
        (b"$01\r\na\r\n", Malformed::Length),
    ];
    for (stream, expected) in cases {
        assert_eq!(whole_reply(stream), Err(*expected), "{}", stream.escape_ascii());
    }
}

#[test]
fn replies_nest_as_deep_as_they_like_without_a_stack() {
    let mut stream = b"*1\r\n".repeat(1_000_000);
    stream.extend_from_slice(b":1\r\n");
    assert_eq!(whole_reply(&stream), Ok(Some(Reply { end: stream.len(), kind: Kind::Value })));
}

#[test]
fn items_owed_are_counted_without_an_overflow() {
    // Each level adds 2^32 items; the count holds after as many levels as a stream of some megabytes has.
    let stream = b"*4294967295\r\n".repeat(100_000);
    assert_eq!(whole_reply(&stream), Ok(None));
}

#[test]
fn the_kind_of_a_reply_is_known_before_its_end() {
    let mut framer = ReplyFramer::new();
    assert_eq!(framer.kind(), None);
    assert_eq!(framer.advance(b"|1\r\n+ttl\r\n:1\r\n"), Ok(None));
    assert_eq!(framer.kind(), None);
    assert_eq!(framer.advance(b">2\r\n+a"), Ok(None));
    assert_eq!(framer.kind(), Some(Kind::Push));
}

/// A request as clients write it.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let argument = prop::collection::vec(any::<u8>(), 0..40);
    let array = prop::collection::vec(argument, 0..6).prop_map(|arguments| {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(&argument);
            request.extend_from_slice(b"\r\n");
        }
        request
    });
    prop_oneof![4 => array, 1 => "[a-z \"]{0,20}\r?\n".prop_map(String::into_bytes)]
}

/// A reply as servers write it.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let line = "[-+:,(][0-9a-z ]{0,12}\r\n|_\r\n|#t\r\n".prop_map(String::into_bytes);
    let string = ("[$=!]", prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(kind, body)| {
        let mut item = format!("{kind}{}\r\n", body.len()).into_bytes();
        item.extend_from_slice(&body);
        item.extend_from_slice(b"\r\n");
        item
    });
    let null = "[$*]-1\r\n".prop_map(String::into_bytes);
    let item = prop_oneof![line, string, null].prop_recursive(4, 40, 6, |item| {
        ("[*~%]", prop::collection::vec(item.clone(), 0..6), prop::option::of((item.clone(), item))).prop_map(
            |(kind, mut items, attribute)| {
                let mut aggregate = Vec::new();
                if let Some((key, value)) = attribute {
                    aggregate.extend_from_slice(b"|1\r\n");
                    aggregate.extend(key.into_iter().chain(value));
                }
                if kind == "%" && items.len() % 2 == 1 {
                    items.pop();
                }
                let length = if kind == "%" { items.len() / 2 } else { items.len() };
                aggregate.extend_from_slice(format!("{kind}{length}\r\n").as_bytes());
                aggregate.extend(items.into_iter().flatten());
                aggregate
            },
        )
    });
    (item, any::<bool>()).prop_map(|(item, push)| if push { [b">1\r\n".to_vec(), item].concat() } else { item })
}

/// A stream that is well-formed, or was before some of its bytes were changed or lost.
fn stream(frame: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any::<u8>())), 1..4),
    ];
    (prop::collection::vec(frame, 1..8), changes).prop_map(|(frames, changes)| {
        let mut stream = frames.concat();
        for (at, change) in changes.into_iter().filter(|_| !stream.is_empty()).collect::<Vec<_>>() {
            if stream.is_empty() {
                break;
            }
            let at = at.index(stream.len());
            match change {
                Some(byte) => stream[at] = byte,
                None => stream.truncate(at),
            }
        }
        stream
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn requests_in_any_pieces_are_those_of_the_reference(
        stream in stream(request()),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let whole = requests(&stream, &[]);
        prop_assert_eq!(&requests(&stream, &cuts), &whole);
        let every_byte: Vec<_> = (0..stream.len()).collect();
        prop_assert_eq!(&requests(&stream, &every_byte), &whole);
        let (ends, is_malformed) = reference::request_ends(&stream);
        prop_assert_eq!(whole.0.iter().map(|frame| frame.end).collect::<Vec<_>>(), ends);
        prop_assert_eq!(whole.1.is_some(), is_malformed);
    }

    #[test]
    fn replies_in_any_pieces_are_those_of_the_reference(
        stream in stream(reply()),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let whole = replies(&stream, &[]);
        prop_assert_eq!(&replies(&stream, &cuts), &whole);
        let every_byte: Vec<_> = (0..stream.len()).collect();
        prop_assert_eq!(&replies(&stream, &every_byte), &whole);
        let (ends, is_malformed) = reference::reply_ends(&stream);
        prop_assert_eq!(whole.0.iter().map(|frame| frame.end).collect::<Vec<_>>(), ends);
        prop_assert_eq!(whole.1.is_some(), is_malformed);
    }
}
