// SPDX-License-Identifier: Apache-2.0
// Captures, and the graphs that come of them: without nodes, but with the user objects that they own.
#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "world.hpp"

using namespace fake;

namespace {

/// Its function is called by a thread of the driver's, once nobody owns a reference any more.
struct UserObject {
  void* data;
  CUhostFn function;
  unsigned int references;
};

struct Graph {
  std::vector<std::pair<UserObject*, unsigned int>> owned;
};

void give_up(UserObject* object, unsigned int count) {
  object->references -= std::min(count, object->references);
  if (object->references != 0) return;
  std::thread([object] {
    here().in_host_function = true;  // it must not call the driver
    object->function(object->data);
    delete object;
  }).detach();
}

void end(Graph* graph) {
  for (const auto& [object, count] : graph->owned) give_up(object, count);
  delete graph;
}

Graph* of(void* handle) { return static_cast<Graph*>(handle); }

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture");
  STREAM(handle);
  stream->capturing = true;
  stream->capture = ++world().last_capture;
  stream->graph = new Graph;
  world().spoiled = false;
  ++world().captures;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  ENTER("cuStreamEndCapture");
  STREAM_TO_ASK(handle);
  stream->capturing = false;
  --world().captures;
  auto* const made = of(std::exchange(stream->graph, nullptr));
  *graph = nullptr;
  if (world().spoiled) {
    end(made);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *graph = reinterpret_cast<CUgraph>(made);
  return CUDA_SUCCESS;
}

/// In the form of CUDA 11.3.
CUresult CUDAAPI fake_cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                             CUgraph* graph, const CUgraphNode**, std::size_t*) {
  ENTER("cuStreamGetCaptureInfo");
  STREAM_TO_ASK(handle);
  *status = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (!stream->capturing) return CUDA_SUCCESS;
  if (world().spoiled) *status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  *id = stream->capture;
  if (graph) *graph = static_cast<CUgraph>(stream->graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn function, unsigned int references,
                                    unsigned int flags) {
  ENTER("cuUserObjectCreate");
  if (references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  *object = reinterpret_cast<CUuserObject>(new UserObject{data, function, references});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  ENTER("cuUserObjectRelease");
  give_up(reinterpret_cast<UserObject*>(object), count);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count, unsigned int flags) {
  ENTER("cuGraphRetainUserObject");
  auto* const object = reinterpret_cast<UserObject*>(handle);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->references += count;
  of(graph)->owned.emplace_back(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  auto* const copy = new Graph(*of(graph));
  for (const auto& [object, count] : copy->owned) object->references += count;
  *made = reinterpret_cast<CUgraphExec>(copy);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec graph) {
  ENTER("cuGraphExecDestroy");
  end(of(graph));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER("cuGraphDestroy");
  if (graph) end(of(graph));
  return CUDA_SUCCESS;
}

}  // extern "C"
