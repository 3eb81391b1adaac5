//! CRC-32C (Castagnoli), which a header of version 2 may carry: RFC 4960, appendix B.

/// The polynomial 0x1EDC6F41, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The checksum of `bytes`. Bit by bit: a header is short and there is one for each connection.
pub(super) fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    let shift = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| shift(crc)))
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// The check value of the algorithm's parameter model, and two examples of RFC 3720, appendix B.4.
    #[test]
    fn known_checksums_come_out() {
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xe306_9283);
        assert_eq!(crc32c([0; 32].into_iter()), 0x8a91_36aa);
        assert_eq!(crc32c([0xff; 32].into_iter()), 0x62a8_ab43);
        assert_eq!(crc32c(std::iter::empty()), 0);
    }
}
