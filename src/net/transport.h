// SPDX-License-Identifier: Apache-2.0
// Moves frames between a client and a node: pipelined both ways, in order on one connection, authenticated before the
// first one. Knows nothing of what the frames ask for, except their sizes.
//
//   struct Echo : net::Handler {
//     void received(const net::ConnectionPointer& from, net::Incoming message) override { ... from->send(...); }
//     void closed(const net::ConnectionPointer&, const Error&) override {}
//   };
//   auto transport = net::Transport::create({});
//   auto listener = (*transport)->listen(endpoint, {...}, echo);
//   auto connection = (*transport)->connect(endpoint, {...}, client_handler);
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/page_pipe.h"
#include "net/buffer.h"
#include "net/endpoint.h"
#include "wire/codec.h"

namespace tutti::net {

class Connection;
using ConnectionPointer = std::shared_ptr<Connection>;

// A frame that arrived: header and body are checked against their checksums, the payload too if it has one.
struct Incoming {
  wire::Header header{};
  std::vector<std::byte> body{};
  Buffer payload{};  // empty if there is none, or if Handler::place() put it elsewhere
  // With ListenOptions::pages: these bytes of the payload, from `pages_at` on, are here and not in the buffer yet.
  PagePipe pages{};
  std::size_t pages_at = 0;
};

// A frame to send.
struct Outgoing {
  std::vector<std::byte> frame{};  // from wire::encode: header and body
  Buffer payload{};
  // Or pages of a file.
  PagePipe pages{};
  // Or memory of somebody else, sent in this order: it stays untouched until the reply has come or closed() was called.
  // A node that takes pages may look at it later than that: what it then finds is what it was sent.
  std::vector<std::span<const std::byte>> borrowed{};
};

// Who is at the other end.
struct Peer {
  wire::Identity identity{};  // on the node's side: proven
  wire::Method method = wire::Method::kPeer;
  std::string job{};      // as the client calls itself
  std::string address{};  // for messages
};

// Called on the transport's threads or in await_reply(); calls for one connection never overlap. Must not block: others
// are waiting. Every connection that connect() returned or that brought a received() is reported closed once, and
// nothing after.
class Handler {
 public:
  virtual ~Handler() = default;

  // On the node's side: somebody has proven who he is.
  virtual void connected(const ConnectionPointer&) {}

  // Memory for a payload that is about to arrive, of header.payload_length bytes together; used until received() or
  // closed(). Nothing: a Buffer of the transport's pool. Only asked on the side that connected.
  virtual std::vector<std::span<std::byte>> place(const wire::Header& /*header*/, std::span<const std::byte> /*body*/) {
    return {};
  }

  virtual void received(const ConnectionPointer& from, Incoming message) = 0;

  // The peer went away or misbehaved, or close() was called. Borrowed memory is no longer used.
  virtual void closed(const ConnectionPointer& connection, const Error& why) = 0;
};

// Thread-safe.
class Connection {
 public:
  virtual ~Connection() = default;

  // Sends as much as the socket takes at once, from this thread, and the rest as soon as it can. Never waits.
  // On a closed connection the frame is dropped: closed() says so, or has.
  // A request's tag is unique among those without a reply; a reply's is that of a request that has none yet.
  virtual void send(Outgoing message) = 0;

  // Ends the connection. When it returns, borrowed memory is no longer used and no call of the handler is running for
  // this connection, unless this is that very call. closed() is or will be called.
  virtual void close(const Error& why) = 0;

  // On the client's side: receives on this thread, in place of the transport's, until received() has been called for
  // the reply to `tag`. That saves waking one thread for another. received() is called here only for replies
  // that somebody awaits like this: for others it may want locks that this thread holds. Returns early, or at once, if
  // the connection is over, if another thread receives already, or if `wanted` (which must not call the connection)
  // says that the reply has been there.
  virtual void await_reply(std::uint64_t tag, const std::function<bool()>& wanted) = 0;

  virtual const Peer& peer() const = 0;

  // On the client's side: what the node said of itself.
  virtual const wire::Welcome& welcome() const = 0;
  // On the client's side: a time of steady_now() as the node's clock will show it, or slightly earlier, never later:
  // a deadline in the node's time never outlives the same deadline here (docs/design/fencing.md).
  virtual TimePoint node_time(TimePoint here) const = 0;
};

// Stops listening and closes its connections when destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Endpoint& endpoint() const = 0;  // with the port that was free
  virtual std::size_t connections() const = 0;   // authenticated ones
  // Returns when all that its connections were given to send is with the kernel, or `patience` is over; false then.
  virtual bool wait_until_sent(Duration patience) = 0;
};

// A shared secret: 32 bytes or more. Whoever holds it may speak for any user.
using ClusterKey = std::vector<std::byte>;

struct ListenOptions {
  std::string node = "node";           // its name
  std::vector<TargetId> targets{};     // for Welcome
  wire::Limits limits{};               // per connection; a client past them is not read from until replies are out
  std::shared_ptr<BufferPool> pool{};  // for payloads that arrive; nothing: one of 256 MiB
  std::optional<ClusterKey> key{};     // clients over TCP must prove to hold it; nothing: TCP needs MUNGE
  bool munge = false;                  // accept MUNGE credentials over TCP
  bool lend = false;                   // clients should lend large payloads rather than copy them into the socket
  bool pages = false;                  // and those without a checksum arrive by reference
  std::size_t max_connections = 4096;
  Duration handshake_timeout = std::chrono::seconds(10);
  Duration send_timeout = std::chrono::seconds(30);  // a peer that takes nothing for so long is cut off
  std::function<TimePoint()> now{};                  // the clock of deadlines; nothing: steady_now
};

struct ConnectOptions {
  std::string job{};
  std::optional<ClusterKey> key{};
  bool munge = false;
  std::optional<wire::Identity> claim{};  // with a key; nothing: this process's user
  std::shared_ptr<BufferPool> pool{};     // for payloads without a place; nothing: one of 64 MiB
  Duration timeout = std::chrono::seconds(5);
};

struct TransportOptions {
  std::size_t threads = 1;  // that move data and call handlers
};

// Unix sockets, TCP, and pairs inside this process, by the kind of endpoint. Thread-safe.
// Outlives its listeners; its connections end with it.
class Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportOptions& options);
  virtual ~Transport() = default;

  // The handler outlives the listener. A Unix socket left by a dead process is replaced, a live one is kIo
  // EADDRINUSE.
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint, ListenOptions options,
                                                   Handler& handler) = 0;

  // Waits for the handshake. kUnreachable, kTimeout, kDenied (wrong key, or nothing we offer is accepted), kProtocol.
  // The handler outlives the connection: until closed() has been called.
  virtual Result<ConnectionPointer> connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler) = 0;
};

// Nanoseconds of a clock that never jumps and counts time asleep; as a TimePoint, with an origin of its own.
TimePoint steady_now();

// At least 32 bytes from a file that only its owner can read, else kDenied or kInvalid with what to do about it.
Result<ClusterKey> load_key(const std::string& path);

}  // namespace tutti::net
