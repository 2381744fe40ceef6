//! Values from a container's environment in the text that it prints.

use delegate_upgrader::text::redact::Redactor;

fn redactor(environment: &[&str]) -> Redactor {
    Redactor::new(environment.iter().filter_map(|entry| entry.split_once('=')))
}

#[test]
#[rustfmt::skip]
fn hides_a_value_wherever_it_occurs() {
    let redactor = redactor(&[
        "DELEGATE_TOKEN=0123456789abcdef",
        "proxy_password=hunter2",
        "CLIENT_KEY=-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----",
        "DELEGATE_NAME=docker-delegate",
        "INIT_SCRIPT=apt-get install jq\nlogin --user ops",
    ]);
    for (printed, shown) in [
        ("token=0123456789abcdef.", "token=***."),
        (r#"{"t":"0123456789abcdef","p":"hunter2"}"#, r#"{"t":"***","p":"***"}"#),
        ("MIIEvQIBADANBg", "***"),
        ("docker-delegate starts", "docker-delegate starts"),
        ("+ login --user ops", "+ ***"),
    ] {
        assert_eq!(redactor.line(printed), shown);
    }
}

#[test]
fn a_secret_that_contains_another_is_masked_completely() {
    let redactor = redactor(&["A_TOKEN=abcdef", "B_TOKEN=abcdef-and-more"]);
    assert_eq!(redactor.line("abcdef-and-more abcdef"), "*** ***");
}

#[test]
fn masks_a_short_secret_only_after_its_name() {
    let redactor = redactor(&["PIN_SECRET=1234", "EMPTY_TOKEN="]);
    assert_eq!(redactor.line("12345 PIN_SECRET=1234 1"), "12345 PIN_SECRET=*** 1");
    assert_eq!(redactor.line("EMPTY_TOKEN=x"), "EMPTY_TOKEN=x");
}

#[test]
fn hides_passwords_within_other_values() {
    let redactor = redactor(&[
        "MANAGER_HOST_AND_PORT=http://ci:s3cr3t-pw@proxy.example:3128/",
        "JAVA_OPTS=-Xmx1g -Dkeystore.password='changeit'",
    ]);
    assert_eq!(
        redactor.line("via http://ci:s3cr3t-pw@proxy.example:3128/ with -Xmx1g and changeit"),
        "via http://ci:***@proxy.example:3128/ with -Xmx1g and ***"
    );
}

#[test]
fn hides_coloured_or_truncated_secret_completely() {
    let redactor = redactor(&["X_TOKEN=abc\tdefghij"]);
    assert_eq!(redactor.line("\u{1b}[31mabc\u{1b}[0m\tdefghij"), "***");
    let long = format!("{}abc\tdefghij", "x".repeat(400 - 5));
    assert!(!redactor.line(&long).contains("abc"));
}

#[test]
fn a_line_keeps_its_indentation_but_not_its_escapes() {
    let redactor = redactor(&[]);
    assert_eq!(
        redactor.line("    at \u{1b}[31mio.harness\u{1b}[0m\r\n"),
        "    at io.harness"
    );
}

#[test]
fn a_long_line_is_cut_between_two_characters() {
    let line = redactor(&[]).line(&"ü".repeat(400 + 1));
    assert_eq!(line, format!("{}…", "ü".repeat(400)));
    assert_eq!(redactor(&[]).line(&"ü".repeat(400)), "ü".repeat(400));
}
