// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of weir.ipc, and the files of Python's objects.

#include "bind.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::python {

/// Add Channel to weir.ipc.
void bind_channels(nb::module_& ipc);
/// Add SetWriter and SetReader to weir.ipc.
void bind_held_sets(nb::module_& ipc);
void bind_leases(nb::module_& ipc);
/// Add the two ends of a ring to weir.ipc.
void bind_rings(nb::module_& ipc);
/// Add Server, Client and what they tell to weir.ipc.
void bind_names(nb::module_& ipc);
/// Make the interpreter close all servers at its end, while their threads still get the GIL. What is asked for later is
/// done earlier: so this comes after drop_functions_at_exit(), because the threads call such functions.
void close_servers_at_exit();

/// Return the file of a socket, or of what has a fileno(). Throws what Python raises.
int socket_of(nb::handle socket);
/// Return a duplicate of a file that somebody else owns. Throws.
spi::UniqueFd duplicate_file(int number);
/// Return a second descriptor with file descriptors of its own. Opening uses a descriptor up, but the Python object must
/// stay usable, and another thread may close it meanwhile.
ipc::Descriptor duplicate(const ipc::Descriptor& descriptor);

}  // namespace weir::python
