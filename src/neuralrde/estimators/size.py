"""How large a model will be, before anything of it is made."""

from ..signatures import log_signature_channels

# A training of more weights takes gigabytes and hours on most machines, and is a mistaken depth more often than a wish.
MOST_WEIGHTS = 50_000_000
# Measured for a training of large models: weights, the best of them, Adam's moments, gradients and what lies between.
_BYTES_PER_WEIGHT = 108


def check_size(channels: int, depth: int, *, state: int, width: int) -> None:
    """Raise if a model of so many channels (time included) and such a depth would have too many weights.

    >>> check_size(4, 3, state=32, width=64)
    """
    logs = log_signature_channels(channels, depth)
    # Nearly all weights are in the field's last layer, from the network to a matrix (state, log-signature channels).
    weights = (width + 1) * state * logs
    if weights <= MOST_WEIGHTS:
        return
    lower = f"depth={depth - 1} ({log_signature_channels(channels, depth - 1):,} log-signature channels), " * (
        depth > 1
    )
    raise ValueError(
        f"Got depth {depth} of {channels} channels, time included, which has {logs:,} log-signature channels: a model "
        f"of {weights / 1e6:,.0f} million weights, some {weights * _BYTES_PER_WEIGHT / 1e9:,.0f} GB in training; "
        f"expected at most {MOST_WEIGHTS / 1e6:.0f} million. Write {lower}fewer channels, or a smaller state or width."
    )
