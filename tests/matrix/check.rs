//! The host at the end of a point, and whether it may be in that state.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use kit::lab::diff::Upgrade;
use kit::lab::engine::Engine;

/// The images that may be in service at the end, and whether a rejected one may be kept.
pub(crate) struct Expected<'a> {
    pub(crate) images: &'a [String],
    pub(crate) failed_allowed: bool,
}

/// The errors of the delegate `name`; none, hopefully. `asked` is its create body, and `before` its document from before the
/// upgrade.
pub(crate) async fn wrongs(
    engine: &Engine,
    name: &str,
    (asked, before): (&Value, &Value),
    expected: &Expected<'_>,
) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut failed = 0;
    for row in engine.list(name).await {
        if row.name == name {
            continue;
        }
        let is_failed = row.name.starts_with(&format!("{name}.failed-"));
        failed += usize::from(is_failed);
        let stopped = matches!(row.state.as_str(), "exited" | "created");
        if !(is_failed && expected.failed_allowed && stopped && failed == 1) {
            wrongs.push(format!("left over: {} ({})", row.name, row.state));
        }
    }
    let Some(document) = engine.inspect(name).await else {
        wrongs.push(format!("there is no {name}"));
        return wrongs;
    };
    let image = text(&document, "/Config/Image");
    if !expected.images.contains(&image) {
        wrongs.push(format!("it has the image {image}"));
    }
    let state = text(&document, "/State/Status");
    if state != "running" {
        wrongs.push(format!("it is {state}"));
    } else if let Err(problem) = healthy(&document).await {
        wrongs.push(format!("it is not healthy: {problem}"));
    }
    let image_of = async |document| {
        let path = format!("/images/{}/json", text(document, "/Config/Image"));
        engine.expect("GET", &path, None).await
    };
    let upgrade = Upgrade {
        asked,
        old: before,
        new: &document,
        old_image: &image_of(before).await,
        new_image: &image_of(&document).await,
    };
    wrongs.extend(upgrade.losses());
    wrongs
}

/// The image of the container in service, if there is one.
pub(crate) async fn image_in_service(engine: &Engine, name: &str) -> Option<String> {
    let document = engine.inspect(name).await?;
    (text(&document, "/State/Status") == "running").then(|| text(&document, "/Config/Image"))
}

/// Whether any container of the delegate `name` is up and healthy, whatever its name.
pub(crate) async fn any_works(engine: &Engine, name: &str) -> bool {
    for row in engine.list(name).await {
        if let Some(document) = engine.inspect(&row.id).await
            && text(&document, "/State/Status") == "running"
            && healthy(&document).await.is_ok()
        {
            return true;
        }
    }
    false
}

pub(crate) fn text(document: &Value, pointer: &str) -> String {
    let text = document.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Asks the delegate itself.
pub(crate) async fn healthy(document: &Value) -> Result<(), String> {
    let networks = document
        .pointer("/NetworkSettings/Networks")
        .and_then(Value::as_object);
    let address = networks
        .into_iter()
        .flat_map(|networks| networks.values())
        .map(|network| text(network, "/IPAddress"))
        .find(|address| !address.is_empty())
        .ok_or("it has no address")?;
    let ask = async {
        let mut stream = TcpStream::connect((address.as_str(), 3460)).await?;
        stream.write_all(b"GET /api/health HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = match timeout(Duration::from_secs(5), ask).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".to_owned()),
    };
    let status = answer.split(' ').nth(1).unwrap_or_default();
    if status == "200" {
        Ok(())
    } else {
        Err(format!("it answers {status:?}"))
    }
}
