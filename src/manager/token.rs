//! The token in each request: a compact JWE (`dir`, `A128GCM`), encrypted with the delegate token as its key.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;

/// The only header that the Manager needs. No other is written.
const HEADER: &str = r#"{"alg":"dir","enc":"A128GCM"}"#;

/// The size of an AES-128 key, in bytes.
pub const KEY_LEN: usize = 16;

/// The Manager's UI shows padded base64, but a copy often lacks the padding.
const EITHER_PADDING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A delegate token of an account. It is the key that encrypts the tokens for the Manager, and it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DelegateToken([u8; KEY_LEN]);

impl DelegateToken {
    /// Parses a token: 32 hex digits, or their base64, which is the form that the Manager's UI shows.
    ///
    /// Returns `None` if the text is neither. Both forms may have white space around the digits.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let decoded = EITHER_PADDING.decode(text).ok();
        decoded
            .and_then(|bytes| key_from_hex(std::str::from_utf8(&bytes).ok()?.trim()))
            .or_else(|| key_from_hex(text))
            .map(Self)
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Encrypts the claims of a request with a new random IV. Returns a compact JWE.
    ///
    /// # Errors
    /// The system gives no random numbers, or the encryption failed, for which ring gives no reason.
    pub fn seal(&self, claims: &Claims) -> Result<String, &'static str> {
        const NOT_ENCRYPTED: &str = "it cannot be encrypted";
        let mut iv = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut iv);
        random.map_err(|_| "the system gives no random numbers")?;
        let header = BASE64_URL_SAFE_NO_PAD.encode(HEADER);
        let mut text = serde_json::to_vec(claims).map_err(|_| NOT_ENCRYPTED)?;
        let tag = UnboundKey::new(&AES_128_GCM, &self.0)
            .map(LessSafeKey::new)
            .and_then(|cipher| {
                let nonce = Nonce::assume_unique_for_key(iv);
                cipher.seal_in_place_separate_tag(nonce, Aad::from(header.as_bytes()), &mut text)
            })
            .map_err(|_| NOT_ENCRYPTED)?;
        let [iv, text, tag] = [&iv[..], &text, tag.as_ref()].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
        // `dir` has no encrypted key, so the second part is empty.
        Ok(format!("{header}..{iv}.{text}.{tag}"))
    }
}

impl From<[u8; KEY_LEN]> for DelegateToken {
    fn from(key: [u8; KEY_LEN]) -> Self {
        Self(key)
    }
}

impl fmt::Debug for DelegateToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DelegateToken(…)")
    }
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

/// The claims of a request, in the order in which they are serialized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The host that sends the request.
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
    /// A UUID that is new for each token.
    pub jti: String,
}

/// The lifetime of a token, from `iat` to `exp`, in seconds.
pub(super) const LIFETIME: i64 = 30 * 60;
/// How many seconds before `exp` to create a new token.
const MARGIN: i64 = 5 * 60;

/// Whether a token that was issued at that time may be sent now. If the clock was set back, it may be from the future.
pub(super) fn may_be_sent(issued_at: i64, now: i64) -> bool {
    (issued_at..issued_at + LIFETIME - MARGIN).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_token_until_five_minutes_before_expiry() {
        for (now, good) in [
            (1_000_000, true),
            (1_001_499, true),
            (1_001_500, false),
            (1_001_800, false),
            (999_999, false),
        ] {
            assert_eq!(may_be_sent(1_000_000, now), good, "{now}");
        }
    }
}
