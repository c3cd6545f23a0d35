//! Tests of the approaches that follow a refused handshake.

use super::*;

fn check(
    protocol: Protocol,
    known_era: Option<Era>,
    fault: OpenFault,
    expected: Option<(Protocol, Option<Era>)>,
) {
    let next = Approach::first(protocol, known_era).after(&fault);
    let expected = expected.map(|(protocol, known_era)| Approach {
        protocol,
        known_era,
    });
    assert_eq!(next, expected, "{protocol:?}, {known_era:?}, {fault}");
}

#[test]
fn a_refusal_leads_to_another_approach_only_where_one_is_left() {
    use Protocol::{Auto, Legacy, Modern};
    let refused = || OpenFault::Refused("no".to_owned());
    check(
        Auto,
        None,
        OpenFault::RefusedAfterProbe,
        Some((Legacy, None)),
    );
    check(Legacy, None, OpenFault::RefusedAfterProbe, None);
    check(Auto, Some(Era::Modern), refused(), Some((Auto, None)));
    check(Auto, None, refused(), None);
    check(Modern, Some(Era::Legacy), refused(), None);
    check(
        Auto,
        Some(Era::Legacy),
        OpenFault::Channel("ended".to_owned()),
        None,
    );
    check(
        Auto,
        None,
        OpenFault::ProtocolViolation("prints junk".to_owned()),
        None,
    );
    check(
        Auto,
        Some(Era::Legacy),
        OpenFault::Timeout(Duration::from_secs(30)),
        None,
    );
}
