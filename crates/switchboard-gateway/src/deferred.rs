//! Requests whose response takes time: those that a server answers, and those that stay open.

use std::sync::Arc;

use switchboard::revision::Era;
use tokio::sync::Notify;

use crate::changes;
use crate::client::Responder;
use crate::client_catalog::ListKind;
use crate::client_request::ClientRequest;
use crate::client_tasks;
use crate::gateway_loop;
use crate::gateway_state::GatewayState;
use crate::immediate;
use crate::reply::{self, ErrorReply};
use crate::sent_request::SentRequest;
use crate::server_request;
use crate::skills;
use crate::subscriptions::{SubscribedResource, Subscriber};

/// A request that a task answers.
#[derive(Debug)]
pub(crate) struct DeferredRequest {
    pub(crate) gateway: Arc<GatewayState>,
    pub(crate) request: ClientRequest,
    pub(crate) responder: Responder,
    /// Notified when the client cancels the request.
    pub(crate) cancel: Arc<Notify>,
}

impl DeferredRequest {
    /// Answers the request.
    pub(crate) async fn run(self) {
        match &*self.request.method {
            "tools/call"
            | "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "skills/get"
            | "resources/directory/read" => {
                let Self {
                    gateway,
                    request,
                    responder,
                    cancel,
                } = self;
                server_request::run(&gateway, &request, responder, cancel).await;
            }
            // Rare, and with a larger future than the others.
            _ => Box::pin(self.run_other()).await,
        }
    }

    async fn run_other(self) {
        let Self {
            gateway,
            request,
            responder,
            cancel,
        } = self;
        match (&*request.method, request.era) {
            ("skills/list", _) => tokio::select! {
                () = skills::list(&gateway, &request, responder) => {}
                () = cancel.notified() => {}
            },
            (gateway_loop::METHOD, _) => tokio::select! {
                () = gateway_loop::answer(&gateway, &request, responder) => {}
                () = cancel.notified() => {}
            },
            ("tasks/result", Era::Legacy) => {
                client_tasks::result(&gateway.tasks, &request, responder, &cancel).await;
            }
            ("subscriptions/listen", Era::Modern) => {
                changes::listen(&gateway, &request, responder, &cancel).await;
            }
            ("resources/subscribe" | "resources/unsubscribe", Era::Legacy) => {
                tokio::select! {
                    outcome = subscribe(&gateway, &request) => match outcome {
                        Ok(()) => responder.result(b"{}").await,
                        Err(error) => responder.error(&error).await,
                    },
                    () = cancel.notified() => {}
                }
            }
            (method, _) if ListKind::of_method(method).is_some() => {
                tokio::select! {
                    () = gateway.first_lists(&request.client.selection) => {}
                    () = cancel.notified() => return,
                }
                match immediate::answer(&gateway, &request) {
                    Ok(list) => responder.result(&list.unwrap_or_default()).await,
                    Err(error) => responder.error(&error).await,
                }
            }
            (method, _) => {
                let message = format!("method {method:.100} is not known");
                let error = ErrorReply::new(reply::METHOD_NOT_FOUND, message);
                responder.error(&error).await;
            }
        }
    }
}

async fn subscribe(gateway: &GatewayState, request: &ClientRequest) -> Result<(), ErrorReply> {
    let client = &request.client;
    let uri = request
        .params
        .text("uri")
        .ok_or_else(|| ErrorReply::invalid_params("uri is missing"))?;
    let subscriptions = &gateway.subscriptions;
    if request.method == "resources/unsubscribe" {
        subscriptions.remove(&gateway.host, &uri, client.number);
        return Ok(());
    }
    let server = gateway
        .server_of_resource(&client.selection, &uri)
        .ok_or_else(|| ErrorReply::no_resource(&uri, request.era))?;
    let subscriber = Subscriber {
        number: client.number,
        principal: client.principal.clone(),
    };
    let resource = SubscribedResource {
        server,
        uri: uri.into_owned(),
    };
    let sent = SentRequest {
        gateway,
        request,
        method: &request.method,
        server: resource.server.clone(),
        name: resource.uri.clone(),
        is_recorded: false,
    };
    let outcome = subscriptions.add(&gateway.host, &resource, &subscriber);
    let outcome = outcome.await;
    sent.ended(match &outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(error.message.to_string()),
    });
    // A client that disconnected meanwhile ended its subscriptions before this one began.
    if !gateway.has_client(client.number) {
        gateway.end_subscriptions(client.number);
    }
    outcome
}
