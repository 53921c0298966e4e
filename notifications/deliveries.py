from checkpoints.sweeps import Outcome


def send_deliveries() -> Outcome:
    return Outcome()


def forget_deliveries() -> Outcome:
    return Outcome()
