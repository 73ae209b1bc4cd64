# Hands on what comes from one link to another and back: late, and not all of it. Its arguments are the two links, the delay in
# milliseconds, how many of a hundred are lost, and what chance begins with.
import collections
import random
import select
import socket
import sys
import time

PACKET, IGNORE_OUTGOING, VNET_HEADER, ALL = 263, 23, 15, 3
# What a machine hands to its link at once, before anything cuts it into packets.
LARGEST = 1 << 17


def listen(link):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(PACKET, IGNORE_OUTGOING, 1)
    # What the kernel leaves to network cards, sums and cutting, stands before each packet and is handed on as it is.
    end.setsockopt(PACKET, VNET_HEADER, 1)
    end.setblocking(False)
    end.bind((link, ALL))
    return end


def main():
    ends = [listen(link) for link in sys.argv[1:3]]
    delay, loss, seed = (int(word) for word in sys.argv[3:6])
    chance = random.Random(seed)
    waiting = collections.deque()
    while True:
        patience = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], patience)[0]:
            try:
                packet = end.recv(LARGEST)
            except OSError:
                continue  # The link was switched off.
            if chance.randrange(100) >= loss:
                waiting.append((time.monotonic() + delay / 1000, ends[1 - ends.index(end)], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, packet = waiting.popleft()
            try:
                end.send(packet)
            except OSError:
                pass  # It is off, or takes no more: lost, as on any cable.


main()
