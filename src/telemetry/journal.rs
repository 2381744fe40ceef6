//! Whether standard output is the systemd journal, which records times and priorities itself.

use std::os::fd::AsFd;

/// Whether this output leads to the journal. systemd puts the device and inode numbers of the journal's stream in
/// `JOURNAL_STREAM`. Another output of the same service may lead elsewhere.
pub(super) fn is_journal(stream: Option<&str>, output: &impl AsFd) -> bool {
    let numbers = || {
        let status = rustix::fs::fstat(output).ok()?;
        Some(format!("{}:{}", status.st_dev, status.st_ino))
    };
    stream.is_some_and(|stream| numbers().as_deref() == Some(stream))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn an_output_is_the_journal_only_if_it_is_systemds_stream() {
        let (reader, writer) = std::io::pipe().unwrap();
        let metadata = File::from(writer.as_fd().try_clone_to_owned().unwrap())
            .metadata()
            .unwrap();
        let named = format!("{}:{}", metadata.dev(), metadata.ino());
        assert!(is_journal(Some(&named), &writer));
        let other = std::io::pipe().unwrap().1;
        assert!(!is_journal(Some(&named), &other));
        for wrong in ["", "1", "a:b", "0:0"] {
            assert!(!is_journal(Some(wrong), &writer), "{wrong}");
        }
        assert!(!is_journal(None, &writer));
        drop(reader);
    }
}
