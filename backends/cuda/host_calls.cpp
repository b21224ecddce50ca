// SPDX-License-Identifier: Apache-2.0
#include "host_calls.hpp"

#include <memory>
#include <utility>

#include "driver.hpp"
#include "errors.hpp"
#include "sticky_errors.hpp"
#include "weir/error.hpp"

namespace weir::cuda {
HostCalls& HostCalls::get() {
  static auto& instance = []() -> HostCalls& {
    auto& made = *new HostCalls;
    made.first_.previous = made.first_.next = &made.first_;
    return made;
  }();
  return instance;
}

void HostCalls::link(Call& call) {
  call.previous = first_.previous;
  call.next = &first_;
  call.previous->next = first_.previous = &call;
}

void HostCalls::unlink(Call& call) {
  call.previous->next = call.next;
  call.next->previous = call.previous;
}

CUresult HostCalls::launch(CUcontext context, CUstream stream, std::function<void()>& function) {
  auto call = std::make_unique<Call>();
  call->context = context;
  call->function.swap(function);
  {
    const std::scoped_lock lock(mutex_);
    link(*call);
  }
  const auto launched = driver().LaunchHostFunc(stream, run, call.get());
  if (launched == CUDA_SUCCESS) {
    (void)call.release();
    return launched;
  }
  const std::scoped_lock lock(mutex_);
  unlink(*call);
  function.swap(call->function);
  return launched;
}

void CUDA_CB HostCalls::run(void* data) noexcept {
  auto* call = static_cast<Call*>(data);
  {
    const std::scoped_lock lock(get().mutex_);
    if (!call->function) return;  // notice() released it
    call->running = true;
  }
  try {
    call->function();
  } catch (const std::exception& error) {
    report({{}, "Stream::call", error.what()});
  } catch (...) {
    report({{}, "Stream::call", "unknown exception"});
  }
  {
    const std::scoped_lock lock(get().mutex_);
    get().unlink(*call);
  }
  reaper().add(std::unique_ptr<Call>(call));
  try {
    reaper().start();
  } catch (const std::exception& error) {
    report({{},
            "Stream::call: what the function owns ends with what the next one owns: no thread can end it now",
            error.what()});
  }
}

// The Call objects themselves stay: the driver may be about to begin with one.
void HostCalls::notice(CUresult result, CUcontext context) noexcept {
  if (!stops_work(result)) return;
  for (;;) {
    std::function<void()> function;
    {
      const std::scoped_lock lock(mutex_);
      Call* const call = find([&](const Call& c) { return c.context == context && c.function && !c.running; });
      if (!call) return;
      function.swap(call->function);
    }
    try {
      reaper().run([owned = std::move(function)] {});
    } catch (const std::exception& error) {
      report({{}, "Stream::call: the device has stopped", error.what()});
    }
  }
}

bool HostCalls::runs_in(CUcontext context) noexcept {
  const std::scoped_lock lock(mutex_);
  return find([&](const Call& call) { return call.context == context && call.running; }) != nullptr;
}

}  // namespace weir::cuda
