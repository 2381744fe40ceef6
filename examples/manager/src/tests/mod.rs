//! The local Manager as our client and an administrator's tools see it, over HTTP.

mod protocol;
mod rest;

use clap::Parser as _;

use crate::{Arguments, Command};

#[test]
fn serve_is_meant_where_the_command_is_left_out() {
    for (line, is_serve) in [
        ("manager --account a --token t --published x:1", true),
        ("manager --database d", true),
        ("manager serve --database d", true),
        ("manager publish x:1", false),
    ] {
        let Arguments { command, serve } = Arguments::try_parse_from(line.split(' ')).unwrap();
        let command = command.or(serve.map(Command::Serve));
        assert_eq!(matches!(command, Some(Command::Serve(_))), is_serve, "{line}");
    }
    assert!(Arguments::try_parse_from(["manager", "--account", "a", "publish", "x:1"]).is_err());
}
