//! How a Cluster shares names among its nodes.

/// How many slots a Cluster has.
const SLOTS: u16 = 16384;

/// The slot of a name: the remainder of the CRC of what stands between its first braces, or of all
/// of it. Source: Redis Cluster specification, "Key distribution model" and "Hash tags".
pub(crate) fn slot_of(name: &[u8]) -> u16 {
    crc16(tag_of(name).unwrap_or(name)) % SLOTS
}

/// CRC-16/XMODEM.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    })
}

fn tag_of(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'{')? + 1;
    let length = name[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &name[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }
}
