//! The images of the upgrades: the lab's images, and images with a value for everything that an image can set. Each kind
//! has three: the last one sets the same values as the second, but is a different image.

use std::fs;
use std::path::Path;
use std::process::Command;

use kit::lab::{self, V1, V2, env, expect, image, project, static_binary};

/// The entry point of the rich images: it runs the delegate, whatever the command.
pub(crate) const ENTRYPOINT: [&str; 4] = ["/busybox", "sh", "-c", "exec /delegate # image"];
/// A statically linked busybox.
const BUSYBOX: &str = "/bin/busybox";

/// Builds and pushes them: the references of the plain and of the rich images, in the order of upgrades.
pub(crate) fn build() -> [[String; 3]; 2] {
    expect(
        Command::new(project().join("tests/lab/images"))
            .arg(static_binary("delegate"))
            .args([V1, V2]),
    );
    let plain = [image(V1), image(V2)];
    let rich = [(1, &plain[0]), (2, &plain[1])].map(|(version, base)| build_rich(version, base));
    [("plain", plain), ("rich", rich)].map(|(kind, [old, new])| {
        let third = build_again(kind, &new);
        [old, new, third]
    })
}

/// Builds another image with the values of `base`: it has one more file.
fn build_again(kind: &str, base: &str) -> String {
    let context = tempfile::tempdir().expect("a directory for an image");
    fs::write(context.path().join("again"), "").expect("a file");
    build_and_push(
        context.path(),
        &format!("FROM {base}\nCOPY again /again\n"),
        &format!("{kind}-again"),
    )
}

fn build_rich(version: usize, base: &str) -> String {
    let entrypoint = serde_json::json!(ENTRYPOINT);
    let signal = ["", "SIGTERM", "SIGINT"][version];
    let more = ["", "", "VOLUME /new-volume\nENV NEW_VARIABLE=1\nEXPOSE 9103/udp"][version];
    let dockerfile = format!(
        "FROM {base}
COPY busybox /busybox
ENV IMAGE_VARIABLE={version} IMAGE_CONSTANT=c
LABEL image.label={version} image.constant=c
EXPOSE 910{version}/tcp 9101/tcp
VOLUME /image-volume
WORKDIR /v{version}
STOPSIGNAL {signal}
HEALTHCHECK --interval=3{version}s --timeout=1{version}s --retries={version} CMD [\"/delegate\", \"healthcheck\"]
{more}
ENTRYPOINT {entrypoint}
CMD [\"image\", \"{version}\"]
"
    );
    let context = tempfile::tempdir().expect("a directory for an image");
    fs::copy(BUSYBOX, context.path().join("busybox")).expect("a busybox; the package busybox-static has it");
    build_and_push(context.path(), &dockerfile, &version.to_string())
}

fn build_and_push(context: &Path, dockerfile: &str, tag: &str) -> String {
    let reference = format!("{}/fidelity/delegate:{tag}", env("LAB_REGISTRY"));
    lab::build(&reference, dockerfile, context, &[]);
    expect(Command::new("docker").args(["push", "--quiet", &reference]));
    reference
}
