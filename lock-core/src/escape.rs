//! The one reversible way to show bytes that are not printable text: `%XX`.

use std::fmt::{self, Write};

/// Writes `bytes` as text: printable characters as they are, all else and `%` as `%XX`.
pub(crate) fn encode(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character.is_control() || is_invisible(character) {
                let mut buffer = [0; 4];
                percent(character.encode_utf8(&mut buffer).as_bytes(), out)?;
            } else {
                out.write_char(character)?;
            }
        }
        percent(chunk.invalid(), out)?;
    }
    Ok(())
}

/// Reads what [`encode`] writes; the error is the place of the `%` that is no escape.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let digit = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16));
            let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else { return Err(at) };
            out.push(u8::try_from(high * 16 + low).map_err(|_| at)?);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    Ok(out)
}

fn percent(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "%{byte:02X}"))
}

/// Characters that a terminal would hide or reorder, so that two keys could look alike.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
