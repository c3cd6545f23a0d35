//! Every recorded answer is read as an independent reading reads it.

use std::collections::BTreeMap;

use switchboard_agent::conversation::{ModelTurn, TurnOrigin};
use switchboard_agent::fault::read::read_error;
use switchboard_agent::sse::SseFrames;
use switchboard_agent::wire::wire_of;
use switchboard_agent::{FaultKind, ModelFault, ModelVendor};

use crate::independent_reader::{read, reading_of};
use crate::recordings::{Interaction, load};

pub(crate) fn origin(vendor: ModelVendor, model: &str) -> TurnOrigin {
    TurnOrigin {
        vendor,
        endpoint: vendor.default_base_url().to_owned(),
        model: model.to_owned(),
    }
}

/// Reads a stream as the driver does, in pieces of `size` bytes.
pub(crate) fn read_stream(
    vendor: ModelVendor,
    model: &str,
    body: &[u8],
    size: usize,
) -> Result<ModelTurn, ModelFault> {
    let wire = wire_of(vendor).expect("a wire");
    let mut reader = wire.reader(origin(vendor, model));
    let mut frames = SseFrames::new(1 << 24);
    let mut deltas = Vec::new();
    for piece in body.chunks(size) {
        let mut fault = Ok(());
        let read = frames.read(piece, |_, data| {
            if fault.is_ok() {
                fault = reader.event(data, &mut deltas);
            }
        });
        read.map_err(|error| ModelFault::new(FaultKind::Unreadable, error.to_string()))?;
        fault?;
    }
    reader.finish()
}

pub(crate) fn read_answer(interaction: &Interaction) -> Result<ModelTurn, ModelFault> {
    let (vendor, model) = (interaction.vendor, &interaction.model);
    if interaction.is_stream {
        return read_stream(vendor, model, interaction.body.as_bytes(), 64 * 1024);
    }
    let wire = wire_of(vendor).expect("a wire");
    wire.read_document(origin(vendor, model), &interaction.body)
}

#[test]
fn every_recorded_answer_is_read_as_an_independent_reading_reads_it() {
    let Some(interactions) = load() else {
        return;
    };
    let mut counts: BTreeMap<(&str, bool), (usize, usize)> = BTreeMap::new();
    for interaction in interactions.iter().filter(|one| one.status == 200) {
        let turn = read_answer(interaction);
        let turn = turn.unwrap_or_else(|fault| panic!("{}: {fault}", interaction.place));
        let expected = read(interaction.vendor, interaction.is_stream, &interaction.body);
        assert_eq!(reading_of(&turn), expected, "{}", interaction.place);
        let key = (interaction.vendor.name(), interaction.is_stream);
        let count = counts.entry(key).or_default();
        count.0 += 1;
        count.1 += turn.calls().count();
    }
    for ((vendor, is_stream), (answers, calls)) in &counts {
        eprintln!("{vendor}, streamed {is_stream}: {answers} answers, {calls} calls");
    }
    assert_eq!(counts.len(), 8);
}

#[test]
fn every_recorded_error_is_a_fault_of_its_kind() {
    let Some(interactions) = load() else {
        return;
    };
    let mut count = 0;
    for interaction in interactions.iter().filter(|one| one.status != 200) {
        let fault = read_error(interaction.status, &interaction.body);
        let expected = match interaction.status {
            401 | 403 => FaultKind::Authentication,
            404 => FaultKind::UnknownModel,
            400 if interaction.body.contains("context size") => {
                FaultKind::ContextOverflow { limit: Some(512) }
            }
            400 if interaction.body.contains("model_not_found")
                || interaction.body.contains("valid model ID") =>
            {
                FaultKind::UnknownModel
            }
            _ => FaultKind::InvalidRequest,
        };
        assert_eq!(fault.kind, expected, "{}: {fault}", interaction.place);
        assert!(!fault.message.is_empty());
        count += 1;
    }
    assert!(count > 15, "{count}");
}
