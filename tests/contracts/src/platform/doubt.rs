//! What is known of a request whose connection failed: one that was never made is not sent, one that was made and not
//! answered by the platform is in doubt.

use super::*;

/// Catches: a connection that was never made taken for a lost response, which would label the message.
pub async fn refused_connection_is_never_in_doubt<F: PlatformFixture>() {
    let expected = ExpectedOutcome::NotSent { retry_after_ms: None };
    assert_outcome::<F>(F::KINDS, &F::fault(PlatformFault::ConnectionRefused), &expected).await;
}

/// Catches: a lost response that is reported as not sent, so that the message comes twice without a label, and a proxy's
/// page that is believed.
pub async fn connection_lost_after_request_is_in_doubt<F: PlatformFixture>() {
    for (fault, performed) in [
        (PlatformFault::ForeignResponse { performed: true }, true),
        (PlatformFault::ForeignResponse { performed: false }, false),
        (PlatformFault::Reset, false),
        (PlatformFault::ResponseLost, true),
        (PlatformFault::Hang { performed: true }, true),
        (PlatformFault::Hang { performed: false }, false),
    ] {
        let checks = F::KINDS.iter().map(|kind| async {
            let fixture = F::start().await;
            let outcome = send_with_fault(&fixture, *kind, F::fault(fault.clone())).await;
            (*kind, ExpectedOutcome::from(outcome), new_messages(&fixture, *kind).await)
        });
        for (kind, outcome, arrived) in join_all(checks).await {
            assert_eq!(outcome, ExpectedOutcome::InDoubt, "{kind:?} {fault:?}");
            if !kind.changes_message() {
                assert_eq!(arrived > 0, performed, "{kind:?} {fault:?}");
            }
        }
    }
}

/// Catches: a deletion in doubt that can never be settled.
pub async fn delete_after_lost_response_succeeds<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    let sent = send_text(&fixture, "short-lived").await;
    fixture.script_next(PlatformOperation::Delete, F::fault(PlatformFault::ResponseLost));
    let lost = channel.delete(&fixture.conversation(), &sent[0]).await;
    assert!(matches!(lost, Err(SendError::InDoubt { .. })), "{lost:?}");
    assert_eq!(fixture.arrived_messages().await, []);
    assert_eq!(channel.delete(&fixture.conversation(), &sent[0]).await, Ok(()), "it is gone already");
}

/// Catches: a probe that succeeds although only a proxy answers, and one that leaves doubt about nothing.
pub async fn probe_reports_unreachable_platform<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    assert_eq!(channel.probe().await, Ok(()));
    fixture.script_all(F::fault(PlatformFault::ForeignResponse { performed: false }));
    assert!(channel.probe().await.is_err());
    fixture.refuse_connections();
    let refused = channel.probe().await;
    assert!(matches!(refused, Err(SendError::NotSent { .. })), "{refused:?}");
}
