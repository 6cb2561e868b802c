"""Channels and the settings of gRPC."""

from __future__ import annotations

from typing import Final, TypeAlias

import grpc

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.net.joining import grpc_threads
from taskd_net.net.tls.files import Tls

METADATA_BYTES: Final = 16_384
"""Bytes of the metadata of one call, plus 32 per entry; gRPC refuses the call beyond. A call of this package has some
600."""

PENDING_CALLS: Final = 8192
"""Calls that gRPC keeps until the event loop looks at them, before it begins to cancel some: more than one of each of
MAX_CHILDREN, and two seconds' work. Calls that were begun and reset wait there too, and take up to 25 KiB each."""

Options: TypeAlias = list[tuple[str, str | int]]

# Frames and reads of 16 and 8 KiB, and pings that probe the bandwidth, cost a third of the rate of 64 KiB bodies; the
# pings also a tenth of the time of a join. In their place a window that a cluster's network does not fill.
_FLOW_CONTROL: Final = [
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024 * 1024),
    ("grpc.http2.max_frame_size", 1024 * 1024),
    ("grpc.experimental.tcp_read_chunk_size", 256 * 1024),
]

# The algorithms that a peer may use, a bit for each; bit 0 is no compression. Any other would be undone before a limit
# applies. No peer of a mesh compresses, and the original answers who does with UNIMPLEMENTED as well.
_UNCOMPRESSED: Final = ("grpc.compression_enabled_algorithms_bitset", 1)


def open_channel(
    upstream: Address,
    credentials: grpc.ChannelCredentials | None,
    server_name: str | None,
    *,
    pings: bool,
    times: LinkTimes = TIMES,
) -> grpc.aio.Channel:
    """A channel to a parent; without credentials in plain text.

    Args:
        upstream: where the parent listens.
        credentials: for TLS.
        server_name: what the parent's certificate has to name instead of the host of `upstream`.
        pings, times: as in `channel_options`.

    Raises:
        NodeError: the process is at its limit of threads.
    """
    grpc_threads.require_room()
    options = channel_options(pings=pings, times=times)
    if credentials is None:
        channel = grpc.aio.insecure_channel(str(upstream), options=options)
    else:
        if server_name is not None:
            options.append(("grpc.ssl_target_name_override", server_name))
        channel = grpc.aio.secure_channel(str(upstream), credentials, options=options)
    grpc_threads.note(channel)
    return channel


def channel_to(address: Address, tls: Tls | None) -> grpc.aio.Channel:
    """A channel of somebody who only asks: no pings, and certificates that are read once.

    Raises:
        ConfigError: a file of TLS is not usable; names it and says what is wrong.
        NodeError: the process is at its limit of threads.
    """
    if tls is None:
        return open_channel(address, None, None, pings=False)
    from taskd_net.net.tls.certificates import read
    from taskd_net.net.tls.credentials import channel_credentials

    return open_channel(address, channel_credentials(read(tls)), tls.server_name, pings=False)


def server_options(bounds: Limits = DEFAULT, *, channelz: bool = False, times: LinkTimes = TIMES) -> Options:
    """The channel arguments of a parent; with channelz gRPC keeps its figures.

    The parent pings its children, and lets them ping it. The names are those that work, not all that are documented:
    `min_ping_interval_without_data_ms` is the one that permits frequent pings, and without `ping_timeout_ms` a frozen
    peer is not noticed.
    """
    return [
        *_FLOW_CONTROL,
        _UNCOMPRESSED,
        ("grpc.enable_channelz", int(channelz)),
        # Two nodes on one port would each get a part of the children.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.RECEIVE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", bounds.streams_per_connection),
        # Both, or calls between the two would be refused by chance. The size is compared by `>=`.
        ("grpc.max_metadata_size", METADATA_BYTES + 1),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES + 1),
        # Peers that connect and say nothing, that send their first words byte by byte, or that make no call.
        ("grpc.server_handshake_timeout_ms", int(bounds.registration_time * 1000)),
        ("grpc.max_connection_idle_ms", int(bounds.registration_time * 1000)),
        # gRPC cancels calls beyond 1,000 that wait to be looked at; thousands of children may join at once.
        ("grpc.server.max_pending_requests", PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS * 5 // 4),
        *_pings(times),
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ]


def channel_options(*, pings: bool, times: LinkTimes = TIMES) -> Options:
    """The channel arguments of a child. `pings` only towards a parent that permits them.

    Each attempt to join gets a channel of its own and the pause before it is ours; a connection shared with another
    channel of the process, or gRPC's own pause, would come in between.
    """
    options: Options = [
        *_FLOW_CONTROL,
        _UNCOMPRESSED,
        ("grpc.use_local_subchannel_pool", 1),
        # So named, this bounds the connecting itself: a first packet that was lost, a parent that is frozen.
        ("grpc.min_reconnect_backoff_ms", int(times.connect * 1000)),
        ("grpc.initial_reconnect_backoff_ms", int(times.connect * 1000)),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", limits.RECEIVE_BYTES),
        ("grpc.max_send_message_length", -1),
    ]
    return options + _pings(times) if pings else options


def _pings(times: LinkTimes) -> Options:
    """The arguments of whoever pings the other end."""
    return [
        ("grpc.keepalive_time_ms", int(times.keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", int(times.keepalive_timeout * 1000)),
        ("grpc.http2.ping_timeout_ms", int(times.keepalive_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
