// SPDX-License-Identifier: Apache-2.0
#include "names_serve.hpp"

#include <pthread.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "npy.hpp"
#include "signals.hpp"
#include "weir/host.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::cli {
namespace {

[[noreturn]] void fail(std::string_view word, const std::string& why) {
  throw Error(Errc::invalid_argument, '\'' + std::string(word) + "': " + why);
}

/// Blocks the signals that end a program, for this thread and those that it starts, and waits for one.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      if (!is_ignored(signal)) sigaddset(&signals_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  ~EndingSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  void wait() const {
    int signal = 0;
    ::sigwait(&signals_, &signal);
  }

 private:
  sigset_t signals_{}, before_{};
};

Tensor allocate(MemoryResource& from, const Layout& layout, const Stream& stream) {
  return {from.allocate(layout.bytes_needed(), stream), layout};
}

Tensor from_file(MemoryResource& from, std::string_view word, const std::string& path, const Stream& stream) {
  if (!std::filesystem::is_regular_file(path)) fail(word, "there is no such file");  // a pipe would block its opening
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(word, "cannot be opened: " + std::generic_category().message(errno));
  const Layout layout = read_npy_header(file);
  Tensor tensor = allocate(from, layout, stream);
  const auto size = static_cast<std::streamsize>(tensor.buffer().size());
  if (size != 0 && !file.read(reinterpret_cast<char*>(tensor.buffer().host_data()), size))
    fail(word, "the file ends too early");
  return tensor;
}

Tensor zeros(MemoryResource& from, std::string_view word, std::string_view form, const Stream& stream) {
  const auto colon = form.find(':');
  const auto type = dtype_named(form.substr(0, colon));
  if (!type || colon == form.npos)
    fail(word, "is neither NAME=FILE.npy nor NAME=TYPE:SHAPE, such as frame=float32:480x640");
  std::vector<std::int64_t> shape;
  for (auto rest = form.substr(colon + 1); !rest.empty();) {
    std::int64_t extent = -1;
    const auto [stopped, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (error != std::errc{} || extent < 0) fail(word, "a shape is written as 480x640");
    shape.push_back(extent);
    rest.remove_prefix(static_cast<std::size_t>(stopped - rest.data()));
    if (rest == "x" || (!rest.empty() && rest[0] != 'x')) fail(word, "a shape is written as 480x640");
    if (!rest.empty()) rest.remove_prefix(1);
  }
  Tensor tensor = allocate(from, Layout::compact(*type, std::move(shape)), stream);
  tensor.zero(stream);
  return tensor;
}

}  // namespace

int serve_names(const std::string& path, std::span<char*> words, bool read_only) {
  const EndingSignals signals;
  const Stream stream(host_device());
  const ResourcePtr memory = host::make_shared_resource({.read_only_for_peers = read_only});
  ipc::Server server(path);
  for (const std::string_view word : words) {
    const auto equals = word.find('=');
    if (equals == word.npos) fail(word, "is neither NAME=FILE.npy nor NAME=TYPE:SHAPE");
    const auto what = word.substr(equals + 1);
    server.publish(word.substr(0, equals),
                   what.ends_with(".npy") ? from_file(*memory, word, std::string(what), stream)
                                          : zeros(*memory, word, what, stream),
                   stream);
  }
  std::printf("serving %zu tensors at %s; Ctrl-C ends it\n", server.names().size(), path.c_str());
  if (std::fflush(stdout) != 0) return 1;
  signals.wait();
  return 0;
}

}  // namespace weir::cli
