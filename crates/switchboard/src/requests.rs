//! Requests to one server other than tool calls: reads, prompts, completions, subscriptions, log
//! levels.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::call::{CallError, refusal_in};
use crate::caller::Caller;
use crate::event::LogLevel;
use crate::host::{Host, ServerLease};
use crate::name::ServerName;
use crate::server::{CallerSession, ServerHandle};
use crate::session::{CompletionTarget, RequestFault, Session};
use crate::wire::RawJson;

impl Host {
    /// The default caller, whom the requests below can be made for
    /// ([`HostBuilder::caller`](crate::HostBuilder::caller)).
    pub fn caller(&self) -> &Arc<dyn Caller> {
        &self.0.caller
    }

    /// Reads a resource of a server. Returns the result byte for byte, from the cache if a modern
    /// server allowed that and it is still valid.
    pub async fn read(
        &self,
        server: &ServerName,
        uri: &str,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        let (handle, session) = self.session_for(server, caller).await?;
        let answer = session
            .session()
            .read(uri, caller, handle.config.timeouts)
            .await;
        self.finished(&handle, &session, answer, caller).await
    }

    /// Gets a prompt of a server. Returns the result byte for byte.
    pub async fn prompt(
        &self,
        server: &ServerName,
        name: &str,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        let (handle, session) = self.session_for(server, caller).await?;
        let answer = session
            .session()
            .prompt(name, arguments, caller, handle.config.timeouts)
            .await;
        self.finished(&handle, &session, answer, caller).await
    }

    /// For gateways: forwards a client's `prompts/get` or `completion/complete` to a server. The params are those
    /// that the caller [forwards](Caller::forwarded), and `name` is the name in them. Returns the
    /// result byte for byte.
    pub async fn forward(
        &self,
        server: &ServerName,
        method: &str,
        name: Option<&str>,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        let (handle, session) = self.session_for(server, caller).await?;
        let answer = session
            .session()
            .forward(method, name, caller, handle.config.timeouts)
            .await;
        self.finished(&handle, &session, answer, caller).await
    }

    /// Requests completions of an argument's value. `given` are the other arguments of the same
    /// prompt or template that have values. Returns the result byte for byte.
    pub async fn complete(
        &self,
        server: &ServerName,
        of: &CompletionTarget,
        argument: &str,
        value: &str,
        given: &Map<String, Value>,
    ) -> Result<RawJson, CallError> {
        let (handle, session) = self.session_of(server).await?;
        let answer = session
            .completions(of, argument, value, given, handle.config.timeouts.call)
            .await;
        self.0.finish(&handle, answer).await
    }

    /// Subscribes to a resource: from now on each change of it is an
    /// [`Event::ResourceUpdated`](crate::event::Event), also after a reconnect. Returns when the
    /// server has confirmed it. A second subscription to the same resource changes nothing.
    pub async fn subscribe(&self, server: &ServerName, uri: &str) -> Result<(), CallError> {
        let (handle, session) = self.session_of(server).await?;
        let outcome = session.subscribe(uri, handle.config.timeouts.call).await;
        self.agreed(&handle, outcome).await
    }

    /// Ends a subscription. Succeeds if there is none. Starts no server: one that is not connected
    /// gets no subscription when it connects.
    pub async fn unsubscribe(&self, server: &ServerName, uri: &str) -> Result<(), CallError> {
        let handle = self.0.lease(server)?;
        let Some(session) = handle.snapshot().session.clone() else {
            handle.end_subscription(uri);
            return Ok(());
        };
        let outcome = session.unsubscribe(uri, handle.config.timeouts.call).await;
        self.agreed(&handle, outcome).await
    }

    /// Sets a server's minimum log level, also after a reconnect. A message during a call goes to
    /// the call's [`Caller`], if the transport shows which call it belongs to; any other is an
    /// [`Event::Log`](crate::event::Event). A modern server logs during requests only, and a
    /// caller's own [`log_level`](Caller::log_level) takes precedence.
    pub async fn set_log_level(
        &self,
        server: &ServerName,
        level: LogLevel,
    ) -> Result<(), CallError> {
        let (handle, session) = self.session_of(server).await?;
        let outcome = session
            .set_log_level(level, handle.config.timeouts.call)
            .await;
        self.agreed(&handle, outcome).await
    }

    /// Like [`finish`](crate::host::HostState::finish), and handles a response that shows that its
    /// handler needs the other era: prompts and resources may ask questions too.
    async fn finished(
        &self,
        handle: &ServerLease,
        session: &CallerSession,
        answer: Result<RawJson, RequestFault>,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        if let Some(refusal) = refusal_in(answer.as_ref(), session, None) {
            self.0.era_refused(handle, refusal, caller, false).await;
        }
        self.0.finish(session.handle(handle), answer).await
    }

    /// The session for requests of this caller.
    async fn session_for(
        &self,
        server: &ServerName,
        caller: &Arc<dyn Caller>,
    ) -> Result<(ServerLease, CallerSession), CallError> {
        let handle = self.0.lease(server)?;
        let wait = handle.config.longest_connect();
        let session = handle.session_for(caller.id(), wait).await?;
        Ok((handle, session))
    }

    async fn session_of(
        &self,
        server: &ServerName,
    ) -> Result<(ServerLease, Arc<Session>), CallError> {
        let handle = self.0.lease(server)?;
        let session = handle.ready(handle.config.longest_connect()).await?;
        Ok((handle, session))
    }

    async fn agreed(
        &self,
        handle: &ServerHandle,
        outcome: Result<(), RequestFault>,
    ) -> Result<(), CallError> {
        self.0
            .finish(handle, outcome.map(|()| RawJson::from_value(&Value::Null)))
            .await
            .map(drop)
    }
}
