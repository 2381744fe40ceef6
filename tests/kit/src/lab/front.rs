//! The server at the Manager's address: it fails as a test wants, or leads to the Manager.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The treatment of a request.
#[derive(Clone)]
pub enum Fault {
    /// These bytes, then the end.
    Says(Vec<u8>),
    /// No answer, forever.
    Silent,
    /// These bytes, this long after the request.
    Slow(Duration, Vec<u8>),
    /// Another server answers, at this address.
    Leads(String),
}

/// Ends with the test's process.
pub struct Front {
    pub address: SocketAddr,
    fault: Arc<Mutex<Fault>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Front {
    pub fn that(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port");
        let fault = Arc::new(Mutex::new(fault));
        let told = Arc::clone(&fault);
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = Arc::clone(&open);
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let fault = told.lock().expect("the fault").clone();
                kept.lock().expect("the connections").push(clone(&client));
                if let Fault::Leads(to) = fault {
                    let Ok(other) = TcpStream::connect(to) else {
                        continue;
                    };
                    let (from, to) = (clone(&client), clone(&other));
                    thread::spawn(move || relay(from, to));
                    thread::spawn(move || relay(other, client));
                } else {
                    thread::spawn(move || answer(client, fault));
                }
            }
        });
        Self { address, fault, open }
    }

    pub fn set(&self, fault: Fault) {
        *self.fault.lock().expect("the fault") = fault;
        // As by a restart. Otherwise a client would keep a good connection for its next request, or wait on a bad one.
        for connection in self.open.lock().expect("the connections").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn answer(mut client: TcpStream, fault: Fault) {
    // With unread bytes, the end of the connection would overtake the answer.
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match client.read(&mut byte) {
            Ok(1) => head.extend(byte),
            _ => return,
        }
    }
    let bytes = match fault {
        // Until the other side goes away.
        Fault::Silent => return drop(client.read(&mut byte)),
        Fault::Slow(after, bytes) => {
            thread::sleep(after);
            bytes
        }
        Fault::Says(bytes) => bytes,
        Fault::Leads(_) => return,
    };
    let _ = client.write_all(&bytes);
    let _ = client.shutdown(Shutdown::Both);
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("clone")
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A whole answer.
pub fn answer_of(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
        .into()
}
