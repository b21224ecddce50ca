// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "folder.hpp"
#include "peers.hpp"
#include "second_try.hpp"
#include "time_limits.hpp"
#include "weir/buffer.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/leases.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

constexpr std::size_t small = 4096;
const std::chrono::seconds patience = answer_limit();  // for what is certainly wrong

const Folder& names_folder() {
  static const Folder made;
  return made;
}
const Folder& holder_folder() {
  static const Folder made;
  return made;
}
bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// A server, or no socket at its path. One that could not be looked at when its server ended may be there before.
ipc::Server serve() {
  const std::string path = names_folder() / "names";
  const std::size_t known = (exists(path) ? 1 : 0) + (exists(path + ".lock") ? 1 : 0);  // the lock's file stays
  require(names_folder().files() <= known, "files that no server is at");
  try {
    return ipc::Server(path, {.patience = 10 * patience});
  } catch (...) {
    require(!exists(path), "the socket of a server that did not start");
    throw;
  }
}

Buffer filled(const Stage& stage, const Stream& stream, unsigned char value) {
  Buffer buffer = stage.shareable->allocate(small, stream);
  buffer.fill(std::byte{value}, stream);
  return buffer;
}

/// A tensor whose work is lost is refused for good, and the server says why.
void get(const Stage& stage, const ipc::Server& server) try {
  const Stream reader(stage.device);
  ipc::Client client(server.path(), patience);
  require(client.list("*", patience).size() == 1, "names");
  const Tensor got = client.get("weights", reader, patience);
  require(lands(got.buffer(), reader, 6), "bytes of a tensor by name");
} catch (const Error& error) {
  if (std::string_view(error.what()).find(" is lost: ") == std::string_view::npos) throw;
  throw Error(Errc::device_lost, error.what());
}

// Whatever fails for one client, the next one is served. What was published is served, too, unless its work was lost;
// then a new publication is.
void get_by_name(const Stage& stage) {
  ipc::Server server = serve();
  with_second_try("a publication", [&] {
    const Stream stream(stage.device);
    const Buffer buffer = filled(stage, stream, 6);
    with_second_try("publish", [&] { return server.publish("weights", buffer, stream); });
    with_second_try("a client", [&] { return get(stage, server), 0; });
    return 0;
  });
  require(ipc::wait_for_returns(*stage.shareable, 0, patience), "tensors by name come back");
  require(server.withdraw("weights"), "the name");
}

void hear_of_names(const Stage& stage) {
  const Stream stream(stage.device);
  ipc::Server server = serve();
  const Buffer buffer = filled(stage, stream, 7);
  stream.synchronize();  // nobody here asks for the tensor, and would hear that work on it is lost
  with_second_try("a subscriber", [&] {
    const ipc::Client client(server.path(), patience);
    ipc::Subscription news = client.subscribe("*", patience);
    const auto version = server.publish("weights", buffer, stream);
    for (std::uint64_t told = 0; told < version; told = news.next(patience).tensor.version) {
    }
    return 0;
  });
}

/// A holder that runs on a thread, of which neither the start nor the end can fail.
class Holding {
 public:
  Holding() : holder_(holder_folder() / "holder") {
    require(pthread_create(&thread_, nullptr, &Holding::run, this) == 0, "a thread for the holder");
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { end(); }
  [[nodiscard]] std::string path() const { return holder_folder() / "holder"; }
  /// Throw what ended it before now.
  void stop() {
    end();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static void* run(void* self) {
    auto& holding = *static_cast<Holding*>(self);
    try {
      holding.holder_.run();
    } catch (...) {
      holding.failure_ = std::current_exception();
    }
    return nullptr;
  }
  void end() {
    if (std::exchange(ended_, true)) return;
    holder_.stop();
    pthread_join(thread_, nullptr);
  }

  ipc::Holder holder_;
  pthread_t thread_{};
  bool ended_ = false;
  std::exception_ptr failure_;
};

// What fails for a writer or a reader can be done again, and the holder goes on.
void hold_a_set(const Stage& stage) {
  const Stream stream(stage.device), reader(stage.device);
  Holding holder;
  with_second_try("a set", [&] {
    ipc::SetWriter writer(holder.path(), "model");
    const Buffer buffer = filled(stage, stream, 8);
    writer.add("weights", buffer.view(u8, {small}), stream);
    const auto epoch = with_second_try("commit", [&] { return writer.commit(patience); });
    with_second_try("a reader", [&] {
      ipc::SetReader sets(holder.path(), "model");
      const ipc::HeldSet set = sets.open(reader, patience);
      require(set.epoch == epoch && set.tensors.size() == 1, "a held set");
      require(lands(set.tensors.begin()->second.buffer(), reader, 8), "bytes of a held tensor");
      return 0;
    });
    writer.remove(patience);
    return 0;
  });
  holder.stop();
}

constexpr Scenario at_paths[] = {
    {"get_by_name", &get_by_name, &shares_nothing},
    {"hear_of_names", &hear_of_names, &shares_nothing},
    {"hold_a_set", &hold_a_set, &shares_nothing},
};

}  // namespace

std::span<const Scenario> peers_at_paths() { return at_paths; }

}  // namespace weir::test
