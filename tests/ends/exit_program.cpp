// SPDX-License-Identifier: Apache-2.0
// Ends itself in one of many ways with everything alive: exit_program <way> <device>.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <latch>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "folder.hpp"
#include "things.hpp"
#include "weir/client.hpp"
#include "weir/server.hpp"
#include "weir/spi/stranger_fd.hpp"

// How a process ends with everything alive is the subject here: the leak sanitizer shall not judge it.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)

namespace weir::test {
namespace {

/// In static and thread-local places of this program, in the order in which they end.
std::optional<Things> at_end;
thread_local std::optional<Things> of_thread;

void fill_all_places(const Device& device) {
  at_end.emplace(device);
  of_thread.emplace(device);
  static Things local(device);  // ends before what was made earlier
  std::latch made(1);
  std::thread([&, device] {
    of_thread.emplace(device);
    static auto& never = *new std::promise<void>;
    made.count_down();
    never.get_future().wait();  // still there when the process ends
  }).detach();
  made.wait();
  std::thread([device] { of_thread.emplace(device); }).join();  // gone before
}

int with_everything_alive(const Device& device) {
  fill_all_places(device);
  return 0;
}

int with_work_under_way(const Device& device) {
  constexpr std::size_t large = 32 << 20;
  fill_all_places(device);
  for (const ResourcePtr& resource : resources_of(device)) {
    const Stream stream(device);
    Buffer from = resource->allocate(large, stream), to = resource->allocate(large, stream);
    from.fill(std::byte{3}, stream);
    for (int i = 0; i < 4; ++i) to.copy_from(from, stream);
    stream.flush();
  }
  return 0;
}

int with_work_held_for_ever(const Device& device) {
  fill_all_places(device);
  at_end->hold(Latch().event);
  return 0;
}

// What was held back starts to run while static objects end.
int with_work_let_go_at_exit(const Device& device) {
  static struct Opens {
    Latch latch;
    ~Opens() { latch.open(); }
  } opens;
  fill_all_places(device);
  at_end->hold(opens.latch.event);
  return 0;
}

int while_others_work(const Device& device) {
  fill_all_places(device);
  keep_working(device, 3);
  return 0;
}

int exit_in_another_thread(const Device& device) {
  fill_all_places(device);
  keep_working(device, 2);
  std::thread([] {
    say_done();
    std::exit(0);
  }).detach();
  std::optional<Things> things;
  go_on([&] {
    if (!things) things.emplace(device);
    things->work();
    things->events.clear();
    things->buffers.clear();
    things->tensors.clear();
  });
}

int exit_in_a_host_function(const Device& device) {
  fill_all_places(device);
  const Stream stream(host_device());
  stream.call([] {
    say_done();
    std::exit(0);
  });
  stream.synchronize();
  std::abort();
}

// The server has no file left for what a client asks for, and its thread tells the failure sink.
int exit_in_a_servers_thread(const Device& device) {
  static const Folder folder;
  static const struct Looks {
    ~Looks() {
      if (folder.files() != 0) std::abort();
    }
  } server_is_gone;
  auto [waits, goes] = pipe_pair();
  if (fork() == 0) {
    goes.reset();
    char byte;
    (void)!read(waits.get(), &byte, 1);
    try {
      for (std::list<ipc::Client> clients;;) clients.emplace_back(folder / "server");  // a driver may make more room
    } catch (const Error&) {  // this process is gone
    }
    _exit(0);
  }
  fill_all_places(device);
  static const ipc::Server server(folder / "server");
  static rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  set_failure_sink([](const Failure&) noexcept {
    static std::atomic_flag ends;
    if (ends.test_and_set()) return;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    say_done();
    std::exit(0);
  });
  const rlimit few{std::min<rlim_t>(limit.rlim_cur, 1024), limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  static std::list<spi::UniqueFd> files;
  while (files.empty() || files.back()) files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  goes.reset();  // makes room for the connection
  for (;;) pause();
}

// One handler from before the first use of the library, which so runs after everything that the library registered.
std::unique_ptr<Things>& for_handlers() {
  static auto& things = *new std::unique_ptr<Things>;
  return things;
}

void use_and_drop() {
  Things* const things = for_handlers().get();
  if (!things) return;
  const Stream stream(host_device());
  Buffer bytes = make_resource(host_device())->allocate(small, stream);
  bytes.fill(std::byte{5}, stream);
  stream.synchronize();
  if (bytes.host_data()[small - 1] != std::byte{5}) std::abort();
  for (Buffer& buffer : things->buffers) buffer.close();
  for_handlers().reset();
}

int handlers_that_use_it(const Device& device) {
  for_handlers() = std::make_unique<Things>(device);
  std::atexit(use_and_drop);
  return 0;
}

int early_handlers_that_drop_it(const Device& device) {
  for_handlers() = std::make_unique<Things>(device);
  fill_all_places(device);
  return 0;
}

// Nobody takes it away: static objects that end late, and handlers, find it and use it.
int with_current_resources(const Device& device) {
  static std::optional<Buffer> kept;
  static struct Asks {
    Device device;
    ~Asks() {
      kept.reset();
      const Stream stream(host_device());
      Buffer bytes = current_resource(host_device())->allocate(small, stream);
      bytes.fill(std::byte{5}, stream);
      stream.synchronize();
      if (bytes.host_data()[small - 1] != std::byte{5} || !current_resource(device)) std::abort();
    }
  } asks{device};
  set_current_resource(host_device(), make_tracking(make_statistics(make_pool(host_device()))));
  const Stream stream(device);
  kept = current_resource(device)->allocate(small, stream);
  kept->fill(std::byte{4}, stream);
  stream.wait(Latch().event);
  Buffer closed = current_resource(device)->allocate(small, stream);
  closed.fill(std::byte{4}, stream);
  return 0;
}

// Nobody waits for the threads that close them.
int with_files_that_block(const Device& device) {
  static auto& files = *new std::list<BlockingFile>(2);
  static const spi::StrangerFd late = files.back().take();
  detail::close_apart(files.front().take());
  fill_all_places(device);
  return 0;
}

int quick(const Device& device) {
  fill_all_places(device);
  at_end->hold(Latch().event);
  keep_working(device, 1);
  std::at_quick_exit([] { at_end->buffers.clear(); });
  say_done();
  std::quick_exit(0);
}

int at_once(const Device& device) {
  fill_all_places(device);
  at_end->hold(Latch().event);
  keep_working(device, 1);
  say_done();
  _exit(0);
}

int by_an_exception(const Device& device) {
  fill_all_places(device);
  keep_working(device, 1);
  std::set_terminate([] {
    at_end->work();
    say_done();
    std::_Exit(42);
  });
  throw std::runtime_error("nobody catches this");
}

// The process ends when the last thread does.
int main_thread_first(const Device& device) {
  fill_all_places(device);
  const pthread_t main_thread = pthread_self();
  std::thread([device, main_thread] {
    pthread_join(main_thread, nullptr);
    of_thread.emplace(device);
    say_done();
    std::exit(0);
  }).detach();
  pthread_exit(nullptr);
}

struct Way {
  const char* name;
  int (*go)(const Device&);
};

constexpr Way ways[] = {{"with_everything_alive", with_everything_alive},
                        {"with_work_under_way", with_work_under_way},
                        {"with_work_held_for_ever", with_work_held_for_ever},
                        {"with_work_let_go_at_exit", with_work_let_go_at_exit},
                        {"while_others_work", while_others_work},
                        {"exit_in_another_thread", exit_in_another_thread},
                        {"exit_in_a_host_function", exit_in_a_host_function},
                        {"exit_in_a_servers_thread", exit_in_a_servers_thread},
                        {"handlers_that_use_it", handlers_that_use_it},
                        {"early_handlers_that_drop_it", early_handlers_that_drop_it},
                        {"with_current_resources", with_current_resources},
                        {"with_files_that_block", with_files_that_block},
                        {"quick", quick},
                        {"at_once", at_once},
                        {"by_an_exception", by_an_exception},
                        {"main_thread_first", main_thread_first}};

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) {
  using namespace weir::test;
  if (count != 3) return 2;
  if (std::strcmp(arguments[1], "early_handlers_that_drop_it") == 0) std::atexit([] { for_handlers().reset(); });
  for (const Way& way : ways) {
    if (std::strcmp(way.name, arguments[1]) != 0) continue;
    const int code = way.go(device_named(arguments[2]));
    say_done();
    return code;
  }
  return 2;
}
