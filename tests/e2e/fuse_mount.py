#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fuse_mount.py DIRECTORY [NUMBER]: mounts a file system with one file there, "file". The kernel and this program name the
file by NUMBER (default: 2), which a FUSE file system may choose anew for each mount; its inode number is 2 on all mounts.
While DIRECTORY.hang exists, it does not answer what the kernel sends when a file is closed, as a network file system
whose server is gone. Prints "mounted", and "closing" for each close that waits. Needs root; ends when it is unmounted."""
import ctypes
import errno
import os
import select
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, ACCESS, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 34, 42)
DATA = b"x" * 65536
EXPORT_SUPPORT = 1 << 4  # files have handles
ROOT, INODE = 1, 2
FILE = int(sys.argv[2]) if len(sys.argv) > 2 else INODE


def attributes(node):
    mode = 0o40755 if node == ROOT else 0o100644
    return struct.pack("<6Q10I", ROOT if node == ROOT else INODE, 0 if node == ROOT else len(DATA), 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """The body of a reply, or an errno."""
    if opcode == INIT:
        minor = struct.unpack_from("<2I", body)[1]
        return struct.pack("<4I2H2I2H8I", 7, min(minor, 31), 65536, EXPORT_SUPPORT, 16, 12, 65536, 1, 16, 0, *[0] * 8)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != b"file":
            return errno.ENOENT
        return struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<Q2I", 0, 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<2QI", body)
        return DATA[offset:offset + size]
    if opcode == STATFS:
        return struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
    return b"" if opcode in (RELEASE, FLUSH, ACCESS) else errno.ENOSYS


def main():
    directory = sys.argv[1]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hanging", directory.encode(), b"fuse.hanging", 0, options) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    waiting = []  # numbers of requests

    def reply(unique, result):
        error, body = (-result, b"") if isinstance(result, int) else (0, result)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    while True:
        ready = select.select([device], [], [], 0.05)[0]
        if not os.path.exists(directory + ".hang"):
            for unique in waiting:
                reply(unique, b"")
            waiting = []
        if not ready:
            continue
        try:
            message = os.read(device, 1 << 17)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return  # unmounted
        _, opcode, unique, node = struct.unpack_from("<2I2Q", message)
        if opcode == FLUSH and os.path.exists(directory + ".hang"):
            print("closing", flush=True)
            waiting.append(unique)
        elif opcode not in (FORGET, BATCH_FORGET):
            result = answer(opcode, node, message[40:])
            reply(unique, result)


if __name__ == "__main__":
    main()
