"""Bytes that a process has really sent, as the operating system counts them."""

import os
import socket
import struct

BYTES_SENT = 200
"""Where Linux puts tcpi_bytes_sent in its tcp_info, since 4.19."""


def bytes_sent():
    """Over all TCP connections that this process has open."""
    return sum(_sent_by(int(number)) for number in os.listdir("/proc/self/fd"))


def _sent_by(number):
    try:
        if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            return 0
        with socket.socket(fileno=os.dup(number)) as connection:
            if connection.type != socket.SOCK_STREAM or connection.family == socket.AF_UNIX:
                return 0
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            return struct.unpack_from("Q", info, BYTES_SENT)[0]
    except (OSError, struct.error):
        return 0
