// SPDX-License-Identifier: Apache-2.0
// Loads a plug-in, uses it, unloads it: plugin_program <case> <device>. Built twice, with and without weir inside.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#if WEIR_IN_EXECUTABLE
#include "weir/weir.hpp"
#endif

namespace {

bool threads_stay = false;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  _exit(1);
}

std::string path_of_plugin() {
  std::string path(4096, '\0');
  path.resize(static_cast<std::size_t>(readlink("/proc/self/exe", path.data(), path.size())));
  return path.substr(0, path.rfind('/') + 1) + WEIR_PLUGIN;
}

class Plugin {
 public:
  Plugin() : handle_(dlopen(path_of_plugin().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) std::fprintf(stderr, "%s\n", dlerror());
    require(handle_, "the plug-in is loaded");
  }
  template <class F>
  F* find(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }
  void unload() { require(dlclose(handle_) == 0, "dlclose"); }

 private:
  void* handle_;
};

bool is_loaded() {
  void* const handle = dlopen(path_of_plugin().c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

int use(const Plugin& plugin, const char* device) { return plugin.find<int(const char*)>("plugin_use")(device); }

#if WEIR_IN_EXECUTABLE
// All of the plug-in's work is complete, so nothing of it is needed any more.
void outside(const char* device) {
  const weir::Stream stream(weir::device(device));
  for (int round = 0; round < 3; ++round) {
    Plugin plugin;
    require(use(plugin, device) == 0, "it works");
    plugin.unload();
    require(!is_loaded(), "the plug-in is unloaded");
    stream.synchronize();
  }
  bool called = false;
  const weir::Stream of_host(weir::host_device());
  of_host.call([&] { called = true; });
  of_host.synchronize();
  require(called, "the executable goes on");
}
#else
void fork_once() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  require(waitpid(child, &status, 0) == child && status == 0, "forks work");
}

// What runs after dlclose is the plug-in's copy of the library, and a function of the plug-in itself.
void inside_with_work_left(const char* device) {
  threads_stay = true;
  for (int round = 0; round < 3; ++round) {
    int go[2], went[2];
    require(pipe2(go, O_CLOEXEC) == 0 && pipe2(went, O_CLOEXEC) == 0, "pipe2");
    Plugin plugin;
    require(plugin.find<int(const char*, int, int)>("plugin_leave_work")(device, go[0], went[1]) == 0, "it works");
    plugin.unload();
    require(is_loaded(), "the plug-in stays loaded: its library has workers");
    require(write(go[1], "!", 1) == 1, "write");
    char byte;
    require(read(went[0], &byte, 1) == 1, "what it left behind is done");
    close(go[1]);
    close(went[0]);
  }
  fork_once();
}

// Its threads go on for a while.
template <class Use>
void without_a_device(const Use& use) {
  threads_stay = true;
  Plugin plugin;
  use(plugin);
  plugin.unload();
  require(is_loaded(), "the plug-in stays loaded: its library has threads");
  constexpr useconds_t longer_than_threads_linger = 200'000;
  usleep(longer_than_threads_linger);
}

void inside_with_channels(const char* /*device*/) {
  without_a_device([](const Plugin& plugin) { require(plugin.find<int()>("plugin_connect")() == 0, "it works"); });
}

void inside_with_a_file(const char* /*device*/) {
  without_a_device([](const Plugin& plugin) { require(plugin.find<int()>("plugin_drop_a_file")() == 0, "it works"); });
}

void inside_with_a_client(const char* /*device*/) {
  const std::string path = "/tmp/weir-plugin-" + std::to_string(getpid());
  int ends[2];
  require(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  const pid_t server = fork();
  if (server == 0) {
    close(ends[1]);
    _exit(Plugin().find<int(const char*, int)>("plugin_serve")(path.c_str(), ends[0]));
  }
  without_a_device([&](const Plugin& plugin) {
    auto* const ask = plugin.find<int(const char*)>("plugin_ask");
    int answer = ask(path.c_str());
    for (int i = 0; answer == 3 && i < 2000; ++i) {  // the server is not there yet
      usleep(10'000);
      answer = ask(path.c_str());
    }
    require(answer == 0, "it works");
  });
  close(ends[1]);
  int status = -1;
  require(waitpid(server, &status, 0) == server && status == 0, "the server ends");
}

// A library that was never used stays nobody's; its handlers of fork are gone with it.
void inside_unused(const char* /*device*/) {
  Plugin plugin;
  plugin.unload();
  require(!is_loaded(), "an unused plug-in is unloaded");
  fork_once();
}

void inside(const char* device) {
  Plugin plugin;
  require(use(plugin, device) == 0, "it works");
  plugin.unload();
  Plugin again;
  require(use(again, device) == 0, "it works again");
}
#endif

}  // namespace

// The leak sanitizer crashes or hangs when it looks at threads of a driver that a plug-in has left running.
extern "C" int __lsan_is_turned_off() { return threads_stay; }  // NOLINT(bugprone-reserved-identifier)

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string name = arguments[1];
#if WEIR_IN_EXECUTABLE
  if (name == "outside") outside(arguments[2]);
#else
  if (name == "inside") inside(arguments[2]);
  if (name == "inside_with_work_left") inside_with_work_left(arguments[2]);
  if (name == "inside_with_channels") inside_with_channels(arguments[2]);
  if (name == "inside_with_a_file") inside_with_a_file(arguments[2]);
  if (name == "inside_with_a_client") inside_with_a_client(arguments[2]);
  if (name == "inside_unused") inside_unused(arguments[2]);
#endif
  std::puts("done");
}
