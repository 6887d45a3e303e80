// SPDX-License-Identifier: Apache-2.0
// Sends frames between a client and a node: pipelined in both directions, in order on one connection, after both sides
// are authenticated. Of the content of frames, a transport uses only the sizes.
//
//   struct Echo : net::Handler {
//     void received(const net::ConnectionPointer& from, net::Incoming message) override { ... from->send(...); }
//     void closed(const net::ConnectionPointer&, const Error&) override {}
//   };
//   auto transport = net::Transport::create({});
//   auto listener = (*transport)->listen(endpoint, {...}, echo);
//   (*transport)->connect(endpoint, {...}, client_handler, [](Result<net::ConnectionPointer> connection) { ... });
#pragma once

#include <tutti/base.h>

#include <boost/container/small_vector.hpp>
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
#include "net/job_check.h"
#include "wire/codec.h"

namespace tutti::net {

class Connection;
using ConnectionPointer = std::shared_ptr<Connection>;

// A received frame. The checksums of header and body are correct, and that of the payload if it has one.
struct Incoming {
  wire::Header header{};
  std::vector<std::byte> body{};
  Buffer payload{};  // empty if there is none, or if it was stored in Handler::reply_memory()
  // With ListenOptions::pages or ReplyMemory::by_reference: bytes of the payload from `pages_at` on, which are not in
  // `payload`. The bytes after them are.
  PagePipe pages{};
  std::size_t pages_at = 0;
  bool unwritable = false;  // the memory of Handler::reply_memory() cannot be written; the payload is lost
};

// A frame to send.
struct Outgoing {
  std::vector<std::byte> frame{};  // from wire::encode: header and body
  Buffer payload{};
  // Instead of `payload`: pages of a file.
  PagePipe pages{};
  // Instead of `payload`: caller-owned memory, sent in this order. The caller must not change it before the reply
  // arrives or closed() is called. If the connection is lost, a node that received pages by reference may still write
  // their later content.
  std::vector<std::span<const std::byte>> borrowed{};
};

// Caller-owned memory that a payload is received into, in this order.
using ReceiveMemory = boost::container::small_vector<std::span<std::byte>, 1>;

// Where the payload of a reply is received. Default: into a Buffer of the connection's pool.
struct ReplyMemory {
  ReceiveMemory memory{};     // if not empty: header.payload_length bytes, used until received() or closed() is called
  bool by_reference = false;  // else, if the payload is large and has no checksum: into Incoming::pages
};

// The other end of a connection.
struct Peer {
  wire::Identity identity{};  // of a client: authenticated. Not set for a node
  wire::Method method = wire::Method::kPeer;
  std::string job{};      // the client's name for itself; for a node, its name
  std::string address{};  // for error messages
  // Of a client: the job that all its requests count for. Nothing: the one that each request states (JobCheck).
  std::optional<ApplicationId> application{};
};

// Called on the transport's threads or in await_reply(). Calls for one connection never overlap. A handler must not
// block, because other connections use the same thread. closed() is called once for every connection that connect()
// returned or for which connected() was called, and is the last call for it.
class Handler {
 public:
  virtual ~Handler() = default;

  // On the node's side: a client is authenticated.
  virtual void connected(const ConnectionPointer&) {}

  // On the client's side: where to receive the payload of a reply.
  virtual ReplyMemory reply_memory(const wire::Header& /*header*/, std::span<const std::byte> /*body*/) { return {}; }

  // On the node's side: memory for the payload of a wire::Payload, header.payload_length bytes. Empty: there is none
  // now; it is asked again when memory of ListenOptions::pulled_pool is released. An error closes the connection.
  virtual Result<Buffer> payload_memory(const ConnectionPointer& /*from*/, const wire::Header& /*header*/) {
    return fail(ErrorCode::kProtocol, "a payload that was not asked for");
  }

  virtual void received(const ConnectionPointer& from, Incoming message) = 0;

  // On the client's side: borrowed memory of the request with this tag cannot be read (EFAULT). The node did not get
  // the request and will not answer it. The connection stays usable, unless a part of the request was sent.
  virtual void unsendable(const ConnectionPointer& /*from*/, std::uint64_t /*tag*/) {}

  // The peer closed the connection or violated the protocol, or close() was called. Borrowed memory is no longer used.
  virtual void closed(const ConnectionPointer& connection, const Error& why) = 0;
};

// Thread-safe.
class Connection {
 public:
  virtual ~Connection() = default;

  // For use by the handler. No lock guards it: use it only in calls of the handler for this connection, or under a lock
  // of the handler.
  std::shared_ptr<void> context{};

  // Never blocks: sends on this thread what the socket accepts, and the rest later from the loop's thread. Borrowed
  // memory that cannot be read is reported by Handler::unsendable().
  // On a closed connection the frame is dropped; closed() was or will be called.
  // The tag of a request must be unique among requests without a reply. The tag of a reply is that of its request. A
  // node may send further replies if the client expects them (the gate, and wire::Progress); they do not count against
  // the limits. Requests that have no reply (wire::is_one_way) do not count, either.
  virtual void send(Outgoing message) = 0;

  // Closes the connection. When it returns, borrowed memory is no longer used, and no call of the handler is running
  // for this connection, except if close() is called from it. closed() was or will be called.
  virtual void close(const Error& why) = 0;

  // On the client's side: receives on this thread instead of the transport's until received() was called for the reply
  // to `tag`. This saves a thread switch per reply. On this thread, received() is called only for replies for which a
  // thread is in await_reply(): for other replies it might need locks that this thread holds. Returns early if the
  // connection is closed, if another thread receives already, or if `wanted` returns false because the reply has
  // arrived. `wanted` must not call the connection.
  virtual void await_reply(std::uint64_t tag, const std::function<bool()>& wanted) = 0;

  // On the node's side: changes wire::Limits::credit, for requests that arrive from now on. A request over it waits for
  // replies; one that is larger than the whole credit closes the connection. False: payloads in memory use more.
  virtual bool set_credit(std::uint64_t bytes) = 0;

  virtual const Peer& peer() const = 0;

  // For a child process after fork(): closes the child's copy of the socket. Otherwise the peer would not notice when
  // the parent ends. The child has none of the transport's threads and must not call anything else.
  virtual void abandon_after_fork() {}

  // On the client's side: the node's Welcome.
  virtual const wire::Welcome& welcome() const = 0;
};

// The destructor stops listening and closes the connections. Thread-safe.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Endpoint& endpoint() const = 0;  // with the actual port
  virtual std::size_t connections() const = 0;   // number of authenticated connections
  // Blocks until the kernel has accepted everything that was sent on its connections. False: it took longer than
  // `patience`.
  virtual bool wait_until_sent(Duration patience) = 0;
};

// Makes and checks credentials (MUNGE). The calls may block; nodes make them on threads of their own. Thread-safe.
class CredentialService {
 public:
  virtual ~CredentialService() = default;
  // A credential of this process's user that contains `content`.
  virtual Result<std::string> make(const wire::Digest& content) = 0;
  // The user of the credential with its groups. kDenied if it is not valid or does not contain `content`.
  virtual Result<wire::Identity> verify(const std::string& credential, const wire::Digest& content) = 0;
};

// A shared secret of at least 32 bytes. A client that has it may act for any user.
using ClusterKey = std::vector<std::byte>;

struct ListenOptions {
  std::string node = "node";                  // name of the node
  wire::Limits limits{};                      // per connection; over them, nothing more is read until replies are sent
  std::shared_ptr<BufferPool> pool{};         // for received payloads; nullptr: a new one of 256 MiB
  std::shared_ptr<BufferPool> pulled_pool{};  // that Handler::payload_memory() uses; nullptr: none
  std::optional<ClusterKey> key{};            // clients over TCP must prove that they have it; nothing: TCP needs MUNGE
  bool munge = false;                         // accept MUNGE credentials over TCP
  std::shared_ptr<CredentialService> credentials{};  // for munge; nullptr: MUNGE
  std::shared_ptr<JobCheck> jobs{};                  // checks the job numbers of clients; nullptr: they are not checked
  std::uint32_t max_body = wire::kMaxBody;           // of requests, in bytes; a larger one closes the connection
  std::uint32_t max_payload = wire::kMaxPayload;     // of requests, in bytes; a larger one closes the connection
  bool by_reference = false;  // ask clients to send large payloads by reference instead of copying them into the socket
  bool pages = false;         // receive large payloads without a checksum by reference, into Incoming::pages
  std::size_t max_connections = 4096;
  // Open connections per user; root and the user of this process have no such limit. Over TCP the user is known only
  // after the handshake, so the handshakes in progress are limited to a quarter of max_connections.
  std::size_t max_connections_per_user = SIZE_MAX;
  Duration handshake_timeout = std::chrono::seconds(10);
  Duration send_timeout = std::chrono::seconds(30);  // close the connection if the peer reads nothing for this time
  // Close the connection if a payload has not arrived within this time plus 1 us per byte.
  Duration receive_timeout = std::chrono::seconds(10);
  // Called on a thread of the transport for each client that fails the handshake, with its address and the reason.
  std::function<void(const std::string&, const Error&)> refused{};
  std::function<TimePoint()> now{};          // clock of deadlines; empty: steady_now
  std::optional<wire::Instance> instance{};  // nothing: own_instance()
  Duration fence_time{};                     // as in wire::Welcome
};

struct ConnectOptions {
  std::string job{};  // name for display
  JobClaim claimed_job{};
  std::optional<ClusterKey> key{};
  bool munge = false;
  std::shared_ptr<CredentialService> credentials{};  // as in ListenOptions
  std::optional<wire::Identity> claim{};             // user to act for, with a key; nothing: this process's user
  std::string node{};                                // name of the node; another node refuses. Empty: any node
  // User that may run the node, besides root and the user of this process. Not checked if a key is used.
  std::optional<std::uint32_t> node_user{};
  std::shared_ptr<BufferPool> pool{};  // for payloads without reply_memory(); nullptr: a new one of 64 MiB
  Duration timeout = std::chrono::seconds(5);
  bool watch = false;  // await_reply() polls for up to 100 us before it sleeps, if the last reply took less than that
};

struct TransportOptions {
  std::size_t threads = 1;  // they move data and call handlers
};

// Unix sockets, TCP, and socket pairs inside this process, according to the endpoint. Must outlive its listeners. The
// destructor closes its connections. Thread-safe.
class Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportOptions& options);
  virtual ~Transport() = default;

  // The handler must outlive the listener. The Unix socket of a dead process is replaced; if the process is alive, the
  // error is kIo with EADDRINUSE.
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint, ListenOptions options,
                                                   Handler& handler) = 0;

  // Does not block: `done` is called on a thread of the transport after the handshake. Errors: kUnreachable, kTimeout,
  // kProtocol, kDenied (wrong key, or no common method). `done` is not called once the transport's destructor has
  // begun. The handler must live until closed() was called.
  using Connected = std::function<void(Result<ConnectionPointer>)>;
  virtual void connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler, Connected done) = 0;
};

// As connect(), but blocks until the result is known. Live transports only.
Result<ConnectionPointer> connect_and_wait(Transport& transport, const Endpoint& endpoint, ConnectOptions options,
                                           Handler& handler);

// CLOCK_BOOTTIME: never jumps, and also advances while the machine is suspended.
TimePoint steady_now();

// This boot and this process.
const wire::Instance& own_instance();

// Reads a key of 32 to 4096 bytes. kDenied if other users can read the file, kInvalid for a wrong size.
Result<ClusterKey> load_key(const std::string& path);

}  // namespace tutti::net
