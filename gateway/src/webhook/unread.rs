//! Answers to requests whose body nobody reads.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    HttpMessage,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ServiceRequest, ServiceResponse},
    middleware::Next,
    web::Bytes,
};

/// The body of an answer, which keeps the rest of its request until it is sent.
///
/// actix then closes the connection. A chunked rest that nobody keeps it would read to its end, for which it
/// has no bound of time.
struct Unread {
    body: BoxBody,
    _rest: Payload,
}

impl MessageBody for Unread {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}

/// Returns the body of an answer to a request whose rest is not read.
pub(super) fn unread(body: BoxBody, rest: Payload) -> BoxBody {
    BoxBody::new(Unread { body, _rest: rest })
}

/// Serves a request without its body.
pub(crate) async fn without_body(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let rest = request.take_payload();
    let response = next.call(request).await?;
    Ok(response.map_body(|_, body| unread(body.boxed(), rest)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::{App, HttpResponse, HttpServer, middleware::from_fn, web};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };

    use super::*;

    /// Maximum time of a step on a busy machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// # Attack
    ///
    /// - Attacker: any pod of the cluster
    /// - Act: begins bodies on many connections and never ends them, so that the gateway keeps them for ever
    /// - Promise: 11
    #[tokio::test]
    async fn a_connection_whose_body_never_ends_is_closed_after_the_answer() {
        let app = || App::new().wrap(from_fn(without_body)).default_service(web::to(HttpResponse::NotFound));
        let server = HttpServer::new(app).workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let address = server.addrs()[0];
        let server = server.run();
        let handle = server.handle();
        tokio::spawn(server);
        for rest in ["Transfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "Content-Length: 100\r\n\r\nbegin"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(format!("POST /evict/x HTTP/1.1\r\nHost: x\r\n{rest}").as_bytes())
                .await
                .unwrap();
            let mut answer = Vec::new();
            let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
            assert!(ended.is_ok(), "{rest}: it is kept open");
            assert!(answer.starts_with(b"HTTP/1.1 404"), "{answer:?}");
        }
        handle.stop(false).await;
    }
}
