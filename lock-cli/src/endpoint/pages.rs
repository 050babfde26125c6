//! The two pages that are served.

use distlock::LockClient;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use metrics_exporter_prometheus::PrometheusHandle;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What is known to whoever asks.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    client: LockClient,
    recorded: PrometheusHandle,
}

impl Pages {
    pub(super) const fn of(client: LockClient, recorded: PrometheusHandle) -> Self {
        Self { client, recorded }
    }

    /// Puts away what was recorded, so that it does not pile up.
    pub(super) fn upkeep(&self) {
        self.recorded.run_upkeep();
    }

    pub(super) async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/metrics" => page(StatusCode::OK, METRICS, self.recorded.render()),
            "/healthz" => match self.client.health().await {
                Ok(_) => page(StatusCode::OK, TEXT, "ok\n"),
                Err(error) => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{error}\n")),
            },
            _ => page(StatusCode::NOT_FOUND, TEXT, "there are /metrics and /healthz\n"),
        }
    }
}

fn page(status: StatusCode, kind: HeaderValue, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use distlock::{ErrorKind, MemoryBackend, Operation};
    use http_body_util::BodyExt;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn pages() -> (Arc<MemoryBackend>, Pages) {
        let store = Arc::new(MemoryBackend::new());
        let client = LockClient::new(Arc::clone(&store) as Arc<dyn distlock::LockBackend>);
        (store, Pages::of(client, PrometheusBuilder::new().build_recorder().handle()))
    }

    async fn asked(pages: &Pages, method: Method, path: &str) -> (u16, String) {
        let response = pages.answer(&method, path).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn health_follows_the_store() {
        let (store, pages) = pages();
        assert_eq!(asked(&pages, Method::GET, "/healthz").await, (200, "ok\n".to_owned()));
        store.faults().fail(Operation::Probe, ErrorKind::PermissionDenied);
        let (status, reason) = asked(&pages, Method::GET, "/healthz").await;
        assert_eq!(status, 503);
        assert!(reason.contains("memory probe"), "{reason}");
        assert_eq!(asked(&pages, Method::GET, "/healthz").await.0, 200, "it is asked each time");
    }

    #[tokio::test]
    async fn all_else_is_refused() {
        let (_, pages) = pages();
        assert_eq!(asked(&pages, Method::HEAD, "/metrics").await.0, 200);
        assert_eq!(asked(&pages, Method::POST, "/metrics").await.0, 405);
        assert_eq!(asked(&pages, Method::GET, "/").await.0, 404);
    }
}
