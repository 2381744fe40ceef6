//! The account's token, which is never printed.

use std::fmt;

use crate::manager::token;

/// The account's token as the 16 key bytes that encrypt what is sent to the Manager. Cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountToken([u8; 16]);

impl AccountToken {
    /// Reads both forms of a token: 32 hex digits, or the base64 of those 32 digits (what the Manager's UI shows).
    ///
    /// `None` for anything else. The Manager's rule: what base64-decodes, trimmed, to 32 hex digits is that; all
    /// else is taken as it is.
    pub fn parse(text: &str) -> Option<Self> {
        token::key_from_text(text).map(Self)
    }

    /// The key bytes, for the one place that encrypts with them.
    pub fn key(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for AccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::secret::Secret;

    const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[test]
    fn both_forms_of_a_token_give_the_same_key() {
        for text in [
            "000102030405060708090a0b0c0d0e0f",
            "000102030405060708090A0B0C0D0E0F",
            "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=",
            "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY",
            // `echo … | base64` encodes the newline too.
            "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYK",
            " MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=\n",
        ] {
            assert_eq!(AccountToken::parse(text).unwrap().key(), &KEY, "{text}");
        }
    }

    #[test]
    fn what_is_neither_form_is_refused() {
        for text in [
            "",
            "000102030405060708090a0b0c0d0e0",
            "000102030405060708090a0b0c0d0e0f0",
            "000102030405060708090a0b0c0d0e0g",
            "+00102030405060708090a0b0c0d0e0f",
            "\"000102030405060708090a0b0c0d0e0f\"",
            "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBl",
            "not a token",
        ] {
            assert!(AccountToken::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn secrets_cannot_be_printed() {
        let shown = format!("{:?}", Secret::new("hunter2"));
        assert_eq!(shown, "Secret(…)");
        let token = AccountToken::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        assert_eq!(format!("{token:?}"), "AccountToken(…)");
        assert_eq!(format!("{:#?}", Some(token)), "Some(\n    AccountToken(…),\n)");
    }
}
