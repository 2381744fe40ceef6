//! The delegate token: both of its forms, the sealed claims, and that it is never printed.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use delegate_upgrader::manager::DelegateToken;
use delegate_upgrader::manager::token::Claims;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const HEX: &str = "000102030405060708090a0b0c0d0e0f";
const BASE64: &str = "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=";
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

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

/// The claims in their exact form.
const CLAIMS: &str = concat!(
    r#"{"iss":"upgrader-host","sub":"acct-TEST_000000000000","aud":"https://manager.example:443","#,
    r#""exp":1700001800,"nbf":1700000000,"iat":1700000000,"jti":"00000000-0000-4000-8000-000000000000"}"#,
);
/// The protocol's test vector: the claims under this key and this IV.
const IV: [u8; 12] = [
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b,
];
const VECTOR: &str = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..EBESExQVFhcYGRob.\
    vwxq3HxtjM1irTqHpkOOTBfUG_RC1ked9r5LM10ncM6xrQxrxPWvQ9OQ5fjq4GEruYjBG9vvmYkecQ-Mpfgy7C4rKIsN-hz1r-cfMoPE1EAb\
    8tjrQ_ea439UsYKIoN9MoBfwqJH_jPEhWbmdjR1luWb6SdTOprjeia2RT601HtUej9PUGtuJMvposjUofQpjqeoSan2FIDliycrfKYEvjlat\
    lhDy7ZSaQKvu22F1j7svaTXi2A8stWpL.4stBvIuLjRIZGKQUNGc--w";

/// Seals the claims as the protocol says, without the client's code.
fn sealed(iv: &[u8]) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"dir","enc":"A128GCM"}"#);
    let mut text = CLAIMS.as_bytes().to_vec();
    let tag = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).unwrap())
        .seal_in_place_separate_tag(
            Nonce::try_assume_unique_for_key(iv).unwrap(),
            Aad::from(header.as_bytes()),
            &mut text,
        )
        .unwrap();
    let [iv, text, tag] = [iv, &text, tag.as_ref()].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    format!("{header}..{iv}.{text}.{tag}")
}

#[test]
fn a_token_matches_the_protocol_byte_for_byte() {
    assert_eq!(sealed(&IV), VECTOR);
    let token = DelegateToken::from(KEY).seal(&claims()).unwrap();
    let iv = token.split('.').nth(2).unwrap();
    assert_eq!(sealed(&BASE64_URL_SAFE_NO_PAD.decode(iv).unwrap()), token);
    let other = DelegateToken::from(KEY).seal(&claims()).unwrap();
    assert_ne!(other, token, "each has its own IV");
}

#[test]
fn both_forms_of_the_delegate_token_give_the_same_key() {
    let with_newline = BASE64_STANDARD.encode(format!("{HEX}\n"));
    for text in [
        HEX,
        &HEX.to_uppercase(),
        BASE64,
        BASE64.trim_end_matches('='),
        // `echo … | base64` also encodes the newline.
        &with_newline,
        &format!(" {HEX}\n"),
        &format!("\t{BASE64}\n"),
    ] {
        assert_eq!(
            DelegateToken::parse(text),
            Some(DelegateToken::from(KEY)),
            "{text:?}"
        );
    }
}

#[test]
fn rejects_invalid_delegate_tokens() {
    let too_short = BASE64_STANDARD.encode(&HEX[..30]);
    let raw_bytes = BASE64_STANDARD.encode(KEY);
    for text in [
        "",
        "token",
        "not a token",
        &HEX[..31],
        &format!("{HEX}0"),
        &format!("\"{HEX}\""),
        &HEX.replace('f', "g"),
        &HEX.replace("0f", "é"),
        "+0010203040506070809+a0b0c0d0e0f",
        "+00102030405060708090a0b0c0d0e0f",
        &too_short,
        &raw_bytes,
    ] {
        assert_eq!(DelegateToken::parse(text), None, "{text:?}");
    }
}

#[test]
fn delegate_token_is_never_printed() {
    let token = DelegateToken::from(KEY);
    assert_eq!(format!("{token:?}"), "DelegateToken(…)");
    assert_eq!(format!("{:#?}", Some(token)), "Some(\n    DelegateToken(…),\n)");
}
