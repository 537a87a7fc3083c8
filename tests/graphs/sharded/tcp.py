"""Bytes that a process has really sent, as the operating system counts them."""

import os
import socket
import struct

BYTES_SENT = 200
"""Where Linux puts tcpi_bytes_sent and tcpi_bytes_retrans in its tcp_info, since 4.19."""


def bytes_sent():
    """Over all TCP connections that this process has open; what went twice counts once."""
    return sum(_sent_by(int(number)) for number in os.listdir("/proc/self/fd"))


def _sent_by(number):
    try:
        if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            return 0
        with socket.socket(fileno=os.dup(number)) as connection:
            if connection.type != socket.SOCK_STREAM or connection.family == socket.AF_UNIX:
                return 0
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            sent, again = struct.unpack_from("QQ", info, BYTES_SENT)
            return sent - again
    except (OSError, struct.error):
        return 0
