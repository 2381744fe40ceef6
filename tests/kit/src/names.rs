//! Name servers over UDP and TCP that answer as a test wants, well or badly.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread;

/// The answer of a name server.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// These addresses, as far as they belong to the requested family.
    Has(&'static [&'static str]),
    /// This code: 2 is SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
    Code(u8),
    /// These addresses as well, but only over TCP.
    Large(&'static [&'static str]),
    /// The answer to another question first, and then these addresses.
    Confused(&'static [&'static str]),
    /// Bytes that end in the middle of a record.
    Garbage,
    /// An empty answer from a server that does not ask others.
    Lame,
    Silence,
}

/// The family of IPv4 addresses.
pub const A: u8 = 1;
/// The family of IPv6 addresses.
pub const AAAA: u8 = 28;

/// The flags of an answer without an error.
const GOOD: [u8; 2] = [0x81, 0x80];

/// Starts a server that lives as long as the test. `says` gets the name and the family.
pub fn server(at: SocketAddr, says: impl Fn(&str, u8) -> Says + Clone + Send + 'static) {
    let (udp, tcp) = (UdpSocket::bind(at).unwrap(), TcpListener::bind(at).unwrap());
    let by_tcp = says.clone();
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut question = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut question).unwrap();
            for message in answers(&question, &by_tcp, true) {
                let length = u16::try_from(message.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length, message.as_slice()].concat()).unwrap();
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 512];
        loop {
            let (length, client) = udp.recv_from(&mut buffer).unwrap();
            for message in answers(&buffer[..length], &says, false) {
                udp.send_to(&message, client).unwrap();
            }
        }
    });
}

/// A port at which `127.0.0.1` to `127.0.0.3` are free.
pub fn free_port() -> u16 {
    loop {
        let port = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let is_free = |host: u8| {
            let at = SocketAddr::from(([127, 0, 0, host], port));
            UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
        };
        if (1..=3).all(is_free) {
            return port;
        }
    }
}

fn answers(question: &[u8], says: &impl Fn(&str, u8) -> Says, by_tcp: bool) -> Vec<Vec<u8>> {
    let (name, end) = name_of(question);
    let kind = question[end + 1];
    let answer = |flags: [u8; 2], found: &[&str]| {
        let mut message = question[..end + 4].to_vec();
        message[2..4].copy_from_slice(&flags);
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
        let found: Vec<&IpAddr> = found.iter().filter(|ip| ip.is_ipv4() == (kind == A)).collect();
        message[7] = u8::try_from(found.len()).unwrap();
        for ip in found {
            let data = match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            let length = u8::try_from(data.len()).unwrap();
            message.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, length]);
            message.extend_from_slice(&data);
        }
        message
    };
    match says(&name, kind) {
        Says::Has(found) => vec![answer(GOOD, found)],
        Says::Code(code) => vec![answer([0x81, 0x80 | code], &[])],
        Says::Large(found) if by_tcp => vec![answer(GOOD, found)],
        Says::Large(_) => vec![answer([0x83, 0x80], &[])],
        Says::Confused(found) => {
            let (right, mut wrong) = (answer(GOOD, found), answer(GOOD, &["192.0.2.66"]));
            wrong[1] ^= 1;
            vec![wrong, right]
        }
        Says::Garbage => {
            let mut message = answer(GOOD, &["192.0.2.66", "2001:db8::66"]);
            message.pop();
            vec![message]
        }
        Says::Lame => vec![answer([0x81, 0], &[])],
        Says::Silence => Vec::new(),
    }
}

/// The name in a question, and the position of the family after it.
fn name_of(question: &[u8]) -> (String, usize) {
    let (mut labels, mut place) = (Vec::new(), 12);
    while question[place] != 0 {
        let end = place + 1 + usize::from(question[place]);
        labels.push(String::from_utf8_lossy(&question[place + 1..end]).into_owned());
        place = end;
    }
    (labels.join("."), place + 1)
}
