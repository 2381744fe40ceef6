//! The question to Prometheus which alerts fire: what is sent, what is understood, and what is never shown.

use delegate_upgrader::alerts::{Alert, Firing, asker};
use delegate_upgrader::config::AlertHold;
use delegate_upgrader::health::http::plain_client;
use delegate_upgrader::text::secret::Secret;
use serde_json::json;

use super::webhook::{KEY_OF_URL, Receiver, Request, Then};

const TOKEN: &str = "opensesame-opensesame";

/// Asks a receiver that answers this, with a login in the URL or with a token.
async fn ask(status: u16, body: &str, has_token: bool) -> (Firing, Request) {
    let body = body.to_owned();
    let receiver = Receiver::start(move |_, _| Then::Answer(status, String::new(), body.clone())).await;
    let login = if has_token {
        String::new()
    } else {
        format!("me:{TOKEN}@")
    };
    let url = receiver.url.replace("http://", &format!("http://{login}"));
    let hold = AlertHold {
        alerts: r#"Image\w+|"x""#.to_owned(),
        url: Secret::new(url),
        token: has_token.then(|| Secret::new(TOKEN)),
        timeout: None,
    };
    let firing = asker(&hold, plain_client().unwrap())().await;
    (firing, receiver.requests().remove(0))
}

#[tokio::test]
async fn asks_for_the_alerts_and_reads_their_labels() {
    let series = [
        json!({ "metric": { "alertname": "A", "image": "harness/delegate:26.03.1", "workload": "w" } }),
        json!({ "metric": { "alertname": "B", "image": "nginx" } }),
        json!({ "metric": { "alertname": "C", "ended_by": "upgrade" } }),
    ];
    let body = json!({ "status": "success", "data": { "resultType": "vector", "result": series } });
    let (firing, request) = ask(200, &body.to_string(), true).await;
    let alerts = firing.unwrap();
    assert_eq!(
        alerts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["A of harness/delegate:26.03.1", "B", "C",]
    );
    for (image, holding) in [
        ("registry.example/harness/delegate:26.03.1", vec!["A", "B"]),
        ("harness/delegate:26.04.1", vec!["B"]),
    ] {
        let image = image.parse().unwrap();
        let held: Vec<&Alert> = alerts.iter().filter(|alert| alert.holds(&image)).collect();
        assert_eq!(
            held.iter().map(|alert| alert.name.as_str()).collect::<Vec<_>>(),
            holding
        );
    }
    let query = r#"count by (alertname, image, workload, ended_by) (ALERTS{alertstate="firing",alertname=~"Image\\w+|\"x\""})"#;
    let address = request.head.split(' ').nth(1).unwrap();
    let url = reqwest::Url::parse(&format!("http://p{address}")).unwrap();
    assert_eq!(url.path(), format!("/services/{KEY_OF_URL}/api/v1/query"));
    assert_eq!(url.query_pairs().next().unwrap().1, query);
    assert_eq!(
        request.header("authorization"),
        Some(format!("Bearer {TOKEN}").as_str())
    );
}

#[tokio::test]
async fn tells_refusals_and_other_servers_apart_without_secrets() {
    let refusal = r#"{"status":"error","errorType":"bad_data","error":"missing closing )"}"#;
    for (status, body, is_refused, words) in [
        (400, refusal, true, "HTTP 400: missing closing )"),
        (401, TOKEN, false, "HTTP 401: ***"),
        (503, "", false, "HTTP 503"),
        (302, "", false, "HTTP 302: it redirects"),
        (
            200,
            "<html>",
            false,
            "PROMETHEUS_URL leads to something other than Prometheus",
        ),
        (
            200,
            refusal,
            false,
            "PROMETHEUS_URL leads to something other than Prometheus",
        ),
    ] {
        for has_token in [true, false] {
            let (firing, request) = ask(status, body, has_token).await;
            let unanswered = firing.unwrap_err();
            assert!(unanswered.problem.starts_with(words), "{}", unanswered.problem);
            assert!(!unanswered.problem.contains(TOKEN), "{}", unanswered.problem);
            assert_eq!(unanswered.is_refused, is_refused);
            let login = request.header("authorization").unwrap();
            assert!(
                login.starts_with(if has_token { "Bearer " } else { "Basic " }),
                "{login}"
            );
        }
    }
}
