"""A name server that answers every question for an IPv4 address with 127.0.0.1, and any other with nothing.

Argument: the address to listen on, port 53.
"""

import socket
import sys

A = b"\x00\x01"

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
while True:
    query, client = server.recvfrom(512)
    end = query.index(b"\x00", 12) + 1
    question = query[12 : end + 4]
    wanted = query[end : end + 2] == A
    # Id, flags "answer, no error", one question, none or one answer.
    header = query[:2] + b"\x81\x80\x00\x01" + (b"\x00\x01" if wanted else b"\x00\x00") + b"\x00\x00\x00\x00"
    # The name again by pointer, type A, class IN, 60 s, four bytes.
    answer = b"\xc0\x0c" + A + b"\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01" if wanted else b""
    server.sendto(header + question + answer, client)
