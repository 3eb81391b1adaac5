//! Bytes as hexadecimal digits.

/// Reads two digits, of either case, for each byte of `bytes`; false when `digits` are anything else, and then `bytes`
/// hold nothing in particular.
#[must_use]
pub fn decode_into(digits: &[u8], bytes: &mut [u8]) -> bool {
    let (pairs, rest) = digits.as_chunks();
    pairs.len() == bytes.len()
        && rest.is_empty()
        && pairs.iter().zip(bytes).all(|(&[high, low], byte)| match (value(high), value(low)) {
            (Some(high), Some(low)) => {
                *byte = high << 4 | low;
                true
            }
            _ => false,
        })
}

/// Appends two digits in lower case for each byte.
pub fn encode_onto(text: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
}

const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_back() {
        let mut bytes = [0; 4];
        assert!(decode_into(b"00fFa907", &mut bytes));
        assert_eq!(bytes, [0x00, 0xff, 0xa9, 0x07]);
        let mut text = "0x".to_owned();
        encode_onto(&mut text, &bytes);
        assert_eq!(text, "0x00ffa907");
    }

    #[test]
    fn anything_but_two_digits_a_byte_is_refused() {
        for digits in ["", "00ffa9", "00ffa90", "00ffa9070", "00ffa907 ", "00ffa90g", "+0ffa907", "00ffa90\u{e4}"] {
            assert!(!decode_into(digits.as_bytes(), &mut [0; 4]), "{digits}");
        }
    }
}
