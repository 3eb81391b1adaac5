"""What people do with redis-py, through TLS. Arguments: port, CA file. Prints "all well" at the end."""

import sys
import threading

import redis

port, ca_file = int(sys.argv[1]), sys.argv[2]


def connect(**options):
    return redis.Redis(host="localhost", port=port, ssl=True, ssl_ca_certs=ca_file, **options)


for protocol in (2, 3):
    client = connect(protocol=protocol)
    assert client.ping()
    assert client.set("key", "value")
    assert client.get("key") == b"value"

    big = bytes(range(256)) * 20_000
    client.set("big", big)
    assert client.get("big") == big

    with client.pipeline(transaction=True) as pipe:
        pipe.delete("n")
        for _ in range(1000):
            pipe.incr("n")
        assert pipe.execute()[-1] == 1000

    subscription = client.pubsub()
    subscription.subscribe("news")
    assert subscription.get_message(timeout=10)["type"] == "subscribe"
    assert client.publish("news", "hello") == 1
    assert subscription.get_message(timeout=10)["data"] == b"hello"
    subscription.close()

    client.delete("queue")
    blocked = threading.Thread(target=lambda: results.append(connect(protocol=protocol).blpop("queue", timeout=20)))
    results = []
    blocked.start()
    client.rpush("queue", "work")
    blocked.join()
    assert results == [(b"queue", b"work")] or results == [[b"queue", b"work"]], results

    # A pool under several threads.
    def count():
        for _ in range(200):
            client.incr("counted")

    client.delete("counted")
    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("counted") == b"1600"
    client.close()

print("all well")
