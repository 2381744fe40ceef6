//! Servers, proxies and networks that behave badly.

use std::time::{Duration, Instant};

use delegate_upgrader::config::Egress;
use delegate_upgrader::manager::{HttpManager, ManagerConfig, ManagerError, Timing};
use tokio::net::TcpListener;

use kit::manager::{
    HASTY, QUICK, RawServer, Reply, answer, answer_text, ask, client, config, published, reference,
};

use super::tls::with_password;

fn hasty(base_url: &str) -> HttpManager {
    HttpManager::new(ManagerConfig {
        timing: HASTY,
        ..config(base_url)
    })
    .unwrap()
}

fn kind<T>(result: Result<T, ManagerError>) -> &'static str {
    result.map_or_else(|error| error.kind(), |_| "ok")
}

#[tokio::test]
async fn gives_up_on_a_failing_manager_within_the_limit() {
    let server = RawServer::start(vec![answer(503, "", "down for maintenance")]).await;
    let begun = Instant::now();
    let error = ask(&hasty(&server.url)).await.unwrap_err();
    assert_eq!(
        error,
        ManagerError::Server {
            status: 503,
            message: "down for maintenance".to_owned()
        }
    );
    // A busy machine takes longer, and asks less often.
    let most = HASTY.total + Duration::from_secs(10);
    assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
    // 10, 20, 40, 80, 160, 320 ms of pauses, each up to a half shorter, fit into 700 ms five to seven times.
    let asked = server.requests().len();
    assert!((2..=8).contains(&asked), "{asked}");
}

#[tokio::test]
async fn waits_for_retry_after_within_the_bound() {
    let limited = answer(429, "Retry-After: 1\r\n", "");
    let server = RawServer::start(vec![limited, published("a:1")]).await;
    let begun = Instant::now();
    assert_eq!(ask(&client(&server.url)).await, Ok(reference("a:1")));
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn reports_retry_after_beyond_the_bound_at_once() {
    let server = RawServer::start(vec![answer(429, "Retry-After: 3600\r\n", ""), published("a:1")]).await;
    let begun = Instant::now();
    assert_eq!(
        ask(&client(&server.url)).await,
        Err(ManagerError::RateLimited {
            retry_after: Some(Duration::from_secs(3600))
        })
    );
    assert!(begun.elapsed() < QUICK.total);
    assert_eq!(server.requests().len(), 1);
}

/// This holds for any next request: a check-in, the next run, or the same run for another delegate.
#[tokio::test]
async fn sends_no_request_before_retry_after_has_passed() {
    let limited = answer(429, "Retry-After: 10\r\n", "");
    let server = RawServer::start(vec![limited, published("a:1")]).await;
    let (client, wait) = (client(&server.url), Duration::from_secs(10));
    let begun = Instant::now();
    assert_eq!(kind(ask(&client).await), "rate_limited");
    let Err(ManagerError::RateLimited {
        retry_after: Some(left),
    }) = ask(&client).await
    else {
        panic!("it asks again");
    };
    assert!(left < wait, "{left:?} are left of {wait:?}");
    assert!(begun.elapsed() < wait, "it fails at once");
    assert_eq!(server.requests().len(), 1);
    // By now the rest of the wait fits the bound.
    tokio::time::sleep(left.saturating_sub(QUICK.total / 2)).await;
    assert_eq!(ask(&client).await, Ok(reference("a:1")));
    assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
    assert_eq!(server.requests().len(), 2);
}

/// Otherwise a proxy's mistake would keep us from asking forever.
#[tokio::test]
async fn a_retry_after_wait_is_capped_at_one_hour() {
    let server = RawServer::start(vec![answer(429, "Retry-After: 864000\r\n", "")]).await;
    let client = hasty(&server.url);
    assert_eq!(kind(ask(&client).await), "rate_limited");
    let again = ask(&client).await;
    let Err(ManagerError::RateLimited {
        retry_after: Some(left),
    }) = again
    else {
        panic!("{again:?}");
    };
    let hour = Duration::from_secs(3600);
    assert!((hour / 2..=hour).contains(&left), "{left:?}");
}

#[tokio::test]
async fn reports_redirect_without_sending_the_token() {
    let elsewhere = RawServer::start(vec![published("evil:1")]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!(
            "Location: {}/secret-path?token=hunter2\r\n",
            elsewhere.url.replace("http://", "http://user:hunter2@")
        );
        let server = RawServer::start(vec![answer(status, &location, "")]).await;
        let error = ask(&client(&server.url)).await.unwrap_err();
        assert_eq!(
            error,
            ManagerError::Redirect {
                status,
                to: elsewhere.url.clone()
            }
        );
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_to_nowhere_is_reported_too() {
    for location in ["", "Location: http://\r\n", "Location: \r\n", "Location: ///\r\n"] {
        let server = RawServer::start(vec![answer(302, location, "")]).await;
        assert_eq!(kind(ask(&client(&server.url)).await), "redirect", "{location}");
    }
}

#[tokio::test]
async fn an_endless_or_100_megabyte_body_is_cut_off() {
    for (length, body) in [
        ("", vec![b' '; 16 * 1024]),
        ("Content-Length: 104857600\r\n", vec![b' ']),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{length}\r\n");
        let server = RawServer::start(vec![Reply::Endless(head.into(), body)]).await;
        assert_eq!(
            ask(&client(&server.url)).await,
            Err(ManagerError::TooLarge { limit: 65_536 })
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Only as much as the buffers of the two sockets took.
        assert!(server.bytes_sent() < 20 << 20, "{}", server.bytes_sent());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_largest_body_within_the_bound_is_read() {
    for (length, expected) in [(65_536, "ok"), (65_537, "too_large")] {
        let body = r#"{"resource":{"imageTag":"a:1"}}"#;
        let body = format!("{body}{}", " ".repeat(length - body.len()));
        let server = RawServer::start(vec![answer(200, "", &body)]).await;
        assert_eq!(kind(ask(&client(&server.url)).await), expected, "{length}");
    }
}

#[tokio::test]
async fn an_error_page_of_any_length_keeps_its_error_kind() {
    let page = "<html>".repeat(50_000);
    for (status, expected, asked_again) in [(502, "server", true), (404, "refused", false)] {
        let endless = format!("HTTP/1.1 {status} Whatever\r\n\r\n").into_bytes();
        for reply in [
            answer(status, "", &page),
            Reply::Endless(endless, page.clone().into()),
        ] {
            let server = RawServer::start(vec![reply]).await;
            let timing = Timing {
                total: Duration::from_secs(2),
                ..HASTY
            };
            let config = ManagerConfig {
                timing,
                ..config(&server.url)
            };
            let error = ask(&HttpManager::new(config).unwrap()).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
            assert!(error.to_string().chars().count() < 400, "{error}");
            assert_eq!(server.requests().len() > 1, asked_again, "{status}");
        }
    }
}

#[tokio::test]
async fn retries_truncated_or_invalid_http_answer() {
    let broken_off =
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"resource\":{\"imageTag\":\"a:1".to_vec();
    for bytes in [
        broken_off,
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        b"\x16\x03\x01\x00\xff\xfe".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        Vec::new(),
    ] {
        let server = RawServer::start(vec![Reply::Bytes(bytes.clone()), published("a:1")]).await;
        assert_eq!(ask(&client(&server.url)).await, Ok(reference("a:1")));
        assert!(server.requests().len() >= 2);

        let server = RawServer::start(vec![Reply::Bytes(bytes.clone())]).await;
        let error = ask(&hasty(&server.url)).await.unwrap_err();
        assert_eq!(
            error.kind(),
            "unreachable",
            "{error} {:?}",
            String::from_utf8_lossy(&bytes)
        );
        assert!(error.is_outage());
        assert!(!error.to_string().contains("127.0.0.1"), "no URL in {error}");
    }
}

#[tokio::test]
async fn garbage_in_an_answer_is_not_retried() {
    for body in ["", "null"] {
        let server = RawServer::start(vec![answer(200, "", body)]).await;
        assert_eq!(kind(ask(&client(&server.url)).await), "malformed", "{body}");
        assert_eq!(server.requests().len(), 1, "{body}");
    }
    let server = RawServer::start(vec![published("not an image")]).await;
    assert_eq!(kind(ask(&client(&server.url)).await), "bad_reference");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn silence_and_a_trickling_response_time_out() {
    let begun = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"resource\"";
    for reply in [
        Reply::Hang(Vec::new()),
        Reply::Hang(begun.into()),
        Reply::Drips("HTTP/1.1 200 OK\r\nX:".into()),
        Reply::Drips(begun.into()),
    ] {
        let server = RawServer::start(vec![reply]).await;
        let begun = Instant::now();
        let error = ask(&hasty(&server.url)).await.unwrap_err();
        assert_eq!(error.kind(), "timeout", "{error}");
        assert!(error.is_outage());
        assert!(
            begun.elapsed() < HASTY.total + Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn a_closed_port_and_a_name_that_does_not_resolve_are_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for (url, words) in [
        (
            closed.as_str(),
            "the Manager is unreachable: Connection refused; check ",
        ),
        (
            "http://manager.invalid",
            "the Manager is unreachable: no address of manager.invalid: ",
        ),
    ] {
        let error = ask(&hasty(url)).await.unwrap_err();
        assert_eq!(error.kind(), "unreachable", "{error}");
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

/// Answers with the client's own words, in every place from which an error text is built.
fn echo(status: u16, head: &str) -> String {
    let token = head
        .lines()
        .find_map(|line| line.strip_prefix("authorization: Delegate "))
        .unwrap_or("no token");
    let body = format!(
        r#"{{"resource":null,"responseMessages":[{{"code":"C-{token}","message":"refused Delegate {token}"}}]}}"#
    );
    let headers = format!("X-Harness-Error: {token}\r\nLocation: http://{token}/{token}\r\n");
    answer_text(status, &headers, &body)
}

#[tokio::test]
async fn masks_token_that_the_server_sends_back() {
    let replies: [fn(&str) -> String; 6] = [
        |head| echo(400, head),
        |head| echo(401, head),
        |head| echo(404, head),
        |head| echo(503, head),
        |head| echo(302, head),
        |head| {
            let token = head.split_once("Delegate ").map_or("", |(_, rest)| rest);
            let token = token.lines().next().unwrap_or_default();
            answer_text(200, "", &format!(r#"{{"resource":{{"imageTag":"{token}"}}}}"#))
        },
    ];
    for reply in replies {
        let server = RawServer::start(vec![Reply::made_by(reply)]).await;
        let client = hasty(&server.url);
        let error = ask(&client).await.unwrap_err();
        let head = server.requests().remove(0);
        let (_, token) = head.split_once("authorization: Delegate ").unwrap();
        let token = token.lines().next().unwrap();
        assert!(token.len() > 200, "{token}");
        let shown = format!("{error} {error:?} {client:?}");
        let encrypted = token.split('.').nth(3).unwrap();
        assert!(!shown.contains(encrypted.get(..20).unwrap()), "{shown}");
        assert!(
            !shown.to_lowercase().contains(&encrypted.to_lowercase()[..20]),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn uses_proxy_without_showing_its_password() {
    let proxy = RawServer::start(vec![published("a:1"), answer(407, "", "who are you?")]).await;
    let client = HttpManager::new(ManagerConfig {
        egress: Egress {
            proxy: Some(with_password(&proxy.url)),
            ..Egress::default()
        },
        timing: HASTY,
        ..config("http://manager.invalid/gratis")
    })
    .unwrap();
    assert_eq!(ask(&client).await, Ok(reference("a:1")));
    let head = proxy.requests().remove(0);
    assert!(
        head.starts_with("GET http://manager.invalid/gratis/api/upgrade-check/delegate-v2?"),
        "{head}"
    );
    assert!(
        head.contains("proxy-authorization: Basic dXNlcjpodW50ZXIy"),
        "{head}"
    );

    let error = ask(&client).await.unwrap_err();
    assert_eq!(error, ManagerError::ProxyLogin);
    drop(proxy);
    let shown = format!("{error} {error:?} {client:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
