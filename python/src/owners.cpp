// SPDX-License-Identifier: Apache-2.0

#include "owners.hpp"

#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace weir::python {

struct Owner::Node {
  PyObject* object;
  Node* next = nullptr;
};

namespace {
std::atomic<void*> released{nullptr};  // list of Owner::Node

/// The stable ABI has no name for this question. Every Python answers it so far; without an answer, objects are dropped
/// later.
bool holds_the_gil() noexcept {
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check && check() != 0;
}
}  // namespace

Owner::Owner(nb::handle object) : node_{new Node{object.ptr()}} { object.inc_ref(); }

void Owner::drop() noexcept {
  if (!Py_IsInitialized()) return;
  if (holds_the_gil()) {
    const std::unique_ptr<Node> node{node_};
    Py_DECREF(node->object);
    return;
  }
  void* head = released.load(std::memory_order_relaxed);
  do node_->next = static_cast<Node*>(head);
  while (!released.compare_exchange_weak(head, node_, std::memory_order_release, std::memory_order_relaxed));
  // If the queue of pending calls is full, nothing is lost: the next wait or close empties the list.
  Py_AddPendingCall([](void*) { return drop_released(), 0; }, nullptr);
}

void Owner::drop_released() noexcept {
  auto* node = static_cast<Node*>(released.exchange(nullptr, std::memory_order_acquire));
  while (node) {
    const std::unique_ptr<Node> dropped{node};
    node = node->next;
    Py_DECREF(dropped->object);
  }
}

}  // namespace weir::python
