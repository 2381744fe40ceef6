//! Opening the token that comes with each request: a compact JWE, `dir` and `A128GCM`, keyed by a delegate token.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use delegate_upgrader::manager::token::KEY_LEN;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Deserialize;

/// The claims that are read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Claims {
    /// The host that asks.
    pub(super) iss: String,
    /// Expires at, seconds since the epoch.
    pub(super) exp: i64,
}

/// Why a token could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    /// It has not five parts, is not base64url, or names another algorithm.
    Malformed,
    /// The key is another one, or the token was changed.
    WrongKey,
    /// The decrypted text is not such claims.
    UnknownClaims,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    enc: String,
}

/// Decrypts a token. Whether it has expired is for the caller to judge.
pub(super) fn open(key: &[u8; KEY_LEN], token: &str) -> Result<Claims, OpenError> {
    let decode = |part: &str| {
        BASE64_URL_SAFE_NO_PAD
            .decode(part)
            .map_err(|_| OpenError::Malformed)
    };
    let parts: Vec<&str> = token.split('.').collect();
    let &[header, "", iv, text, tag] = parts.as_slice() else {
        return Err(OpenError::Malformed);
    };
    let known: Header = serde_json::from_slice(&decode(header)?).map_err(|_| OpenError::Malformed)?;
    if known.alg != "dir" || known.enc != "A128GCM" {
        return Err(OpenError::Malformed);
    }
    let iv: [u8; NONCE_LEN] = decode(iv)?.try_into().map_err(|_| OpenError::Malformed)?;
    let tag = decode(tag)?;
    if tag.len() != AES_128_GCM.tag_len() {
        return Err(OpenError::Malformed);
    }
    let mut sealed = decode(text)?;
    sealed.extend_from_slice(&tag);
    let cipher = UnboundKey::new(&AES_128_GCM, key).map_err(|_| OpenError::WrongKey)?;
    let text = LessSafeKey::new(cipher)
        .open_in_place(
            Nonce::assume_unique_for_key(iv),
            Aad::from(header.as_bytes()),
            &mut sealed,
        )
        .map_err(|_| OpenError::WrongKey)?;
    serde_json::from_slice(text).map_err(|_| OpenError::UnknownClaims)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const VECTOR: &str = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..EBESExQVFhcYGRob.\
        vwxq3HxtjM1irTqHpkOOTBfUG_RC1ked9r5LM10ncM6xrQxrxPWvQ9OQ5fjq4GEruYjBG9vvmYkecQ-Mpfgy7C4rKIsN-hz1r-cfMoPE1EAb\
        8tjrQ_ea439UsYKIoN9MoBfwqJH_jPEhWbmdjR1luWb6SdTOprjeia2RT601HtUej9PUGtuJMvposjUofQpjqeoSan2FIDliycrfKYEvjlat\
        lhDy7ZSaQKvu22F1j7svaTXi2A8stWpL.4stBvIuLjRIZGKQUNGc--w";

    #[test]
    fn the_protocols_test_vector_is_read() {
        let claims = Claims {
            iss: "upgrader-host".to_owned(),
            exp: 1_700_001_800,
        };
        assert_eq!(open(&KEY, VECTOR), Ok(claims));
    }

    #[test]
    fn a_changed_token_or_another_key_is_refused() {
        assert_eq!(open(&[7; 16], VECTOR), Err(OpenError::WrongKey));
        for position in 0..VECTOR.len() {
            let mut changed = VECTOR.as_bytes().to_vec();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(open(&KEY, &changed).is_err(), "position {position}");
        }
    }

    #[test]
    fn what_is_not_a_jwe_of_this_kind_is_refused() {
        let (_, body) = VECTOR.split_once('.').unwrap();
        let header = |text: &str| format!("{}.{body}", BASE64_URL_SAFE_NO_PAD.encode(text));
        for token in [
            String::new(),
            "....".to_owned(),
            "a.b.c".to_owned(),
            format!("{VECTOR}.x"),
            VECTOR.replace("..", ".AAAA."),
            header(r#"{"alg":"dir","enc":"A256GCM"}"#),
            header(r#"{"alg":"none","enc":"A128GCM"}"#),
            header("garbage"),
            VECTOR.trim_end_matches("4stBvIuLjRIZGKQUNGc--w").to_owned(),
        ] {
            assert_eq!(open(&KEY, &token), Err(OpenError::Malformed), "{token}");
        }
    }
}
