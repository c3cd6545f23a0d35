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
    /// Reads a resource of a server: its result, byte for byte. A response that a modern server
    /// allowed us to cache is used while it is valid.
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

    /// Gets a prompt of a server: its result, byte for byte.
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

    /// Sends a client's `prompts/get` or `completion/complete` to a server: its params are what the
    /// caller [forwards](Caller::forwarded), and `name` is the one in them. The result, byte for
    /// byte.
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

    /// Asks a server for completions of the value of an argument: its result, byte for byte.
    /// `given` are the other arguments of the same prompt or template, as far as they have values.
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

    /// Ends a subscription. Without one, nothing happens.
    pub async fn unsubscribe(&self, server: &ServerName, uri: &str) -> Result<(), CallError> {
        let (handle, session) = self.session_of(server).await?;
        let outcome = session.unsubscribe(uri, handle.config.timeouts.call).await;
        self.agreed(&handle, outcome).await
    }

    /// Sets the lowest level that a server logs, also after a reconnect. A message during a call
    /// goes to the call's [`Caller`], if the transport says which call it belongs to; any other is
    /// an [`Event::Log`](crate::event::Event). A modern server logs during requests only, and a
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

    /// As [`finish`](crate::host::HostState::finish), and handles a response that says that its
    /// handler needs the other era: prompts and resources may ask questions too.
    async fn finished(
        &self,
        handle: &ServerLease,
        session: &CallerSession,
        answer: Result<RawJson, RequestFault>,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        if let Some(refusal) = refusal_in(&answer, session, None) {
            self.0.era_refused(handle, refusal, caller, false).await;
        }
        self.0.finish(session.handle(handle), answer).await
    }

    /// The session that requests of this caller go to.
    async fn session_for(
        &self,
        server: &ServerName,
        caller: &Arc<dyn Caller>,
    ) -> Result<(ServerLease, CallerSession), CallError> {
        let handle = self.0.lease(server)?;
        let wait = handle.config.longest_connect();
        let session = handle.session_for(&caller.id(), wait).await?;
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
