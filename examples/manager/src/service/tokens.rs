//! Makes and checks delegate tokens and API keys, which say who asks.

use axum::http::{HeaderMap, HeaderName, header};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use delegate_upgrader::manager::token::KEY_LEN;
use ring::rand::{SecureRandom, SystemRandom};

use super::answer::Refusal;
use super::jwe;
use super::scope::Scope;
use super::store::Store;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Bytes of randomness in an API key.
const API_KEY_LEN: usize = 32;

/// A client that asks with a delegate token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The host, as the token's claims have it.
    pub(super) host: String,
    /// The scope of the token that opened the request.
    pub(super) scope: Scope,
}

/// Checked is what the real one checks: that a token in force opens it, and that it has not expired.
pub(super) fn check_token(store: &Store, headers: &HeaderMap, now: i64) -> Result<Asker, Refusal> {
    let invalid = || Refusal::unauthorised("INVALID_TOKEN", "Token is not valid");
    let compact = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Delegate "))
        .ok_or_else(invalid)?;
    let (claims, opener) = store
        .tokens()?
        .into_iter()
        .find_map(|known| Some((jwe::open(&known.key, compact).ok()?, known)))
        .ok_or_else(invalid)?;
    if opener.is_revoked {
        return Err(Refusal::unauthorised("REVOKED_TOKEN", "Token is revoked"));
    }
    if claims.exp <= now {
        return Err(Refusal::unauthorised("EXPIRED_TOKEN", "Token has expired"));
    }
    Ok(Asker {
        host: claims.iss,
        scope: opener.scope,
    })
}

/// The name of the API key that came with a request.
pub(super) fn check_api_key(store: &Store, headers: &HeaderMap) -> Result<String, Refusal> {
    let value = headers
        .get(API_KEY)
        .and_then(|value| value.to_str().ok())
        .ok_or_else(|| Refusal::unauthorised("INVALID_TOKEN", "the header x-api-key is missing"))?;
    match store.api_key(value)? {
        None => Err(Refusal::unauthorised("INVALID_TOKEN", "the API key is not known")),
        Some(known) if known.revoked_at.is_some() => {
            Err(Refusal::unauthorised("REVOKED_TOKEN", "the API key is revoked"))
        }
        Some(known) => Ok(known.name),
    }
}

/// A new delegate token: the key, and its text as the real Manager's UI shows one.
pub(crate) fn new_token() -> Result<([u8; KEY_LEN], String), String> {
    let mut key = [0; KEY_LEN];
    fill(&mut key)?;
    let digits = key.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex: String = digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    Ok((key, BASE64_STANDARD.encode(hex)))
}

pub(crate) fn new_api_key() -> Result<String, String> {
    let mut bytes = [0; API_KEY_LEN];
    fill(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn fill(bytes: &mut [u8]) -> Result<(), String> {
    SystemRandom::new()
        .fill(bytes)
        .map_err(|_| "the system gives no random numbers".to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use delegate_upgrader::manager::token::{Claims, DelegateToken};

    use super::super::store::Kind;
    use super::*;

    const NOW: i64 = 1_000;

    fn headers(key: [u8; KEY_LEN], exp: i64) -> HeaderMap {
        let claims = Claims {
            iss: "h1".to_owned(),
            sub: "acct".to_owned(),
            aud: "http://m:80".to_owned(),
            exp,
            nbf: 0,
            iat: 0,
            jti: "1".to_owned(),
        };
        let compact = DelegateToken::from(key).seal(&claims).unwrap();
        let value = HeaderValue::try_from(format!("Delegate {compact}")).unwrap();
        [(header::AUTHORIZATION, value)].into_iter().collect()
    }

    #[test]
    fn the_token_that_opens_a_request_gives_its_scope() {
        let store = Store::in_memory("acct").unwrap();
        let org = Scope::new(Some("o"), None).unwrap();
        store.add_token("one", &[1; 16], &Scope::Account, 0).unwrap();
        store.add_token("two", &[2; 16], &org, 0).unwrap();
        store.add_token("old", &[3; 16], &org, 0).unwrap();
        store.revoke(Kind::Token, "old", 1).unwrap();
        for (key, exp, expected) in [
            (1, NOW + 1, Ok(Scope::Account)),
            (2, NOW + 1, Ok(org)),
            (2, NOW, Err("EXPIRED_TOKEN")),
            (3, NOW + 1, Err("REVOKED_TOKEN")),
            (3, NOW, Err("REVOKED_TOKEN")),
            (4, NOW + 1, Err("INVALID_TOKEN")),
        ] {
            let found = check_token(&store, &headers([key; 16], exp), NOW);
            let found = found
                .map(|asker| asker.scope)
                .map_err(|refusal| (refusal.status.as_u16(), refusal.code));
            assert_eq!(
                found,
                expected.map_err(|code| (401, code.to_owned())),
                "{key} {exp}"
            );
        }
        let nothing = check_token(&store, &HeaderMap::new(), NOW).unwrap_err();
        assert_eq!(nothing.code, "INVALID_TOKEN");
    }

    #[test]
    fn a_new_token_is_one_that_an_upgrader_takes_and_no_two_are_alike() {
        let (key, text) = new_token().unwrap();
        assert_eq!(DelegateToken::parse(&text), Some(key.into()));
        assert_ne!(new_token().unwrap().0, key);
        assert_ne!(new_api_key().unwrap(), new_api_key().unwrap());
    }
}
