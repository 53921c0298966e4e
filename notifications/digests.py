from checkpoints.sweeps import Outcome


def tell_of_unrouted() -> Outcome:
    return Outcome()
