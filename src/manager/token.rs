//! The token that goes with each request: a compact JWE, `dir` and `A128GCM`, keyed by the delegate token.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// The only header the Manager needs, and the only one we write.
const HEADER: &str = r#"{"alg":"dir","enc":"A128GCM"}"#;

/// Bytes of an AES-128 key.
pub const KEY_LEN: usize = 16;

/// What a token says, in the order in which it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The host that asks.
    pub iss: String,
    /// The account id.
    pub sub: String,
    /// `scheme://host:port` of the Manager.
    pub aud: String,
    /// Expires at, seconds since the epoch.
    pub exp: i64,
    /// Not before, seconds since the epoch.
    pub nbf: i64,
    /// Issued at, seconds since the epoch.
    pub iat: i64,
    /// A UUID, new for each token.
    pub jti: String,
}

/// Why a token could not be made or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No IV can be drawn, so nothing may be encrypted.
    #[error("the system gives no random numbers")]
    NoRandomness,
    /// It cannot be encrypted; ring does not say why.
    #[error("it cannot be encrypted")]
    NotEncrypted,
    /// Not five parts, not base64url, or another algorithm.
    #[error("it is no compact JWE with dir and A128GCM")]
    NotAJwe,
    /// The wrong key, or somebody changed it.
    #[error("it does not decrypt with this key")]
    NotDecrypted,
    /// What was encrypted are no claims.
    #[error("its claims are not what they should be")]
    NotClaims,
}

/// The UI's base64 is padded; a copied one often is not.
const EITHER_PADDING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key in a delegate token: 32 hex digits, or the base64 of those, as the Manager's UI shows it.
///
/// `None` if it is neither. White space around the digits is forgiven, in both forms.
pub fn key_from_text(text: &str) -> Option<[u8; KEY_LEN]> {
    let text = text.trim();
    let decoded = EITHER_PADDING.decode(text).ok();
    decoded
        .and_then(|bytes| key_from_hex(std::str::from_utf8(&bytes).ok()?.trim()))
        .or_else(|| key_from_hex(text))
}

fn key_from_hex(hex: &str) -> Option<[u8; KEY_LEN]> {
    let digits = hex
        .chars()
        .map(|c| u8::try_from(c.to_digit(16)?).ok())
        .collect::<Option<Vec<u8>>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok()
}

/// Encrypts the claims under a fresh random IV.
pub fn seal(key: &[u8; KEY_LEN], claims: &Claims) -> Result<String, TokenError> {
    let mut iv = [0; NONCE_LEN];
    SystemRandom::new()
        .fill(&mut iv)
        .map_err(|_| TokenError::NoRandomness)?;
    seal_with_iv(key, claims, iv)
}

fn seal_with_iv(key: &[u8; KEY_LEN], claims: &Claims, iv: [u8; NONCE_LEN]) -> Result<String, TokenError> {
    let header = BASE64_URL_SAFE_NO_PAD.encode(HEADER);
    let mut text = serde_json::to_vec(claims).map_err(|_| TokenError::NotEncrypted)?;
    let tag = cipher(key)
        .ok_or(TokenError::NotEncrypted)?
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(iv),
            Aad::from(header.as_bytes()),
            &mut text,
        )
        .map_err(|_| TokenError::NotEncrypted)?;
    let [iv, text, tag] = [&iv[..], &text, tag.as_ref()].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    // `dir` has no encrypted key: the second part is empty.
    Ok(format!("{header}..{iv}.{text}.{tag}"))
}

/// Decrypts a token. Whether it has expired is for the caller to judge.
pub fn open(key: &[u8; KEY_LEN], token: &str) -> Result<Claims, TokenError> {
    #[derive(Deserialize)]
    struct Header {
        alg: String,
        enc: String,
    }
    let decode = |part: &str| {
        BASE64_URL_SAFE_NO_PAD
            .decode(part)
            .map_err(|_| TokenError::NotAJwe)
    };

    let parts: Vec<&str> = token.split('.').collect();
    let &[header, "", iv, text, tag] = parts.as_slice() else {
        return Err(TokenError::NotAJwe);
    };
    let known: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::NotAJwe)?;
    if known.alg != "dir" || known.enc != "A128GCM" {
        return Err(TokenError::NotAJwe);
    }
    let iv: [u8; NONCE_LEN] = decode(iv)?.try_into().map_err(|_| TokenError::NotAJwe)?;
    let tag = decode(tag)?;
    if tag.len() != AES_128_GCM.tag_len() {
        return Err(TokenError::NotAJwe);
    }
    let mut sealed = decode(text)?;
    sealed.extend_from_slice(&tag);
    let text = cipher(key)
        .ok_or(TokenError::NotDecrypted)?
        .open_in_place(
            Nonce::assume_unique_for_key(iv),
            Aad::from(header.as_bytes()),
            &mut sealed,
        )
        .map_err(|_| TokenError::NotDecrypted)?;
    serde_json::from_slice(text).map_err(|_| TokenError::NotClaims)
}

fn cipher(key: &[u8; KEY_LEN]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_128_GCM, key).ok().map(LessSafeKey::new)
}

/// A token made for some requests, and the seconds in which it may be used.
#[derive(Clone)]
pub(super) struct Issued {
    pub(super) compact: String,
    from: i64,
    until: i64,
}

impl Issued {
    /// Seconds from `iat` to `exp`.
    pub(super) const LIFETIME: i64 = 30 * 60;
    /// Seconds before `exp` from which a new token is made.
    const MARGIN: i64 = 5 * 60;

    pub(super) fn new(compact: String, now: i64) -> Self {
        Self {
            compact,
            from: now,
            until: now + Self::LIFETIME - Self::MARGIN,
        }
    }

    /// Whether the token is good at `now`. A clock set back makes it one from the future, which is not.
    pub(super) fn is_good_at(&self, now: i64) -> bool {
        (self.from..self.until).contains(&now)
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::BASE64_STANDARD;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";
    const BASE64: &str = "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=";
    const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const IV: [u8; 12] = [
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b,
    ];
    const VECTOR: &str = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..EBESExQVFhcYGRob.\
        vwxq3HxtjM1irTqHpkOOTBfUG_RC1ked9r5LM10ncM6xrQxrxPWvQ9OQ5fjq4GEruYjBG9vvmYkecQ-Mpfgy7C4rKIsN-hz1r-cfMoPE1EAb\
        8tjrQ_ea439UsYKIoN9MoBfwqJH_jPEhWbmdjR1luWb6SdTOprjeia2RT601HtUej9PUGtuJMvposjUofQpjqeoSan2FIDliycrfKYEvjlat\
        lhDy7ZSaQKvu22F1j7svaTXi2A8stWpL.4stBvIuLjRIZGKQUNGc--w";

    fn claims() -> Claims {
        Claims {
            iss: "upgrader-host".to_owned(),
            sub: "acct-TEST_000000000000".to_owned(),
            aud: "https://manager.example:443".to_owned(),
            exp: 1_700_001_800,
            nbf: 1_700_000_000,
            iat: 1_700_000_000,
            jti: "00000000-0000-4000-8000-000000000000".to_owned(),
        }
    }

    #[test]
    fn a_token_is_byte_for_byte_the_protocols_test_vector() {
        assert_eq!(seal_with_iv(&KEY, &claims(), IV).as_deref(), Ok(VECTOR));
    }

    #[test]
    fn the_protocols_test_vector_is_read() {
        assert_eq!(open(&KEY, VECTOR), Ok(claims()));
    }

    #[test]
    fn no_two_tokens_are_alike() {
        let one = seal(&KEY, &claims()).unwrap();
        let other = seal(&KEY, &claims()).unwrap();
        assert_ne!(one, other);
        assert_eq!(open(&KEY, &one), open(&KEY, &other));
    }

    #[test]
    fn a_changed_token_or_another_key_is_refused() {
        assert_eq!(open(&[7; 16], VECTOR), Err(TokenError::NotDecrypted));
        for position in 0..VECTOR.len() {
            let mut changed = VECTOR.as_bytes().to_vec();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(open(&KEY, &changed).is_err(), "position {position}");
        }
    }

    #[test]
    fn what_is_no_jwe_of_this_kind_is_refused() {
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
            assert_eq!(open(&KEY, &token), Err(TokenError::NotAJwe), "{token}");
        }
    }

    #[test]
    fn both_forms_of_the_delegate_token_give_the_same_key() {
        for text in [HEX, BASE64, &format!(" {HEX}\n"), &format!("\t{BASE64}\n")] {
            assert_eq!(key_from_text(text), Some(KEY), "{text:?}");
        }
        assert_eq!(key_from_text(&HEX.to_uppercase()), Some(KEY));
        let with_newline = BASE64_STANDARD.encode(format!("{HEX}\n"));
        assert_eq!(key_from_text(&with_newline), Some(KEY));
    }

    #[test]
    fn anything_else_is_no_delegate_token() {
        let too_short = BASE64_STANDARD.encode(&HEX[..30]);
        let raw_bytes = BASE64_STANDARD.encode(KEY);
        for text in [
            "",
            "token",
            &HEX[..31],
            &format!("{HEX}0"),
            &HEX.replace('f', "g"),
            &HEX.replace("0f", "é"),
            "+0010203040506070809+a0b0c0d0e0f",
            &too_short,
            &raw_bytes,
        ] {
            assert_eq!(key_from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_token_is_used_until_five_minutes_before_it_expires() {
        let issued = Issued::new(String::new(), 1_000_000);
        for (now, good) in [
            (1_000_000, true),
            (1_001_499, true),
            (1_001_500, false),
            (1_001_800, false),
            (999_999, false),
        ] {
            assert_eq!(issued.is_good_at(now), good, "{now}");
        }
    }
}
