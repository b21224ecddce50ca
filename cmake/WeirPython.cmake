# SPDX-License-Identifier: Apache-2.0
# Where Python is, and where its packages keep C headers (dlpack.h and cuda.h come in wheels).
#   weir_python_header_dirs(<out> <dir below site-packages>…): those that exist
include_guard()

# The private environment that ./dev makes is the default interpreter.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
endif()

# Asks the interpreter, because under an isolated `pip install` the build requirements are only on its path.
function(weir_python_paths out)
  file(GLOB paths "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages")
  find_program(WEIR_PYTHON3 NAMES python3 python DOC "Python that is asked for header directories")
  mark_as_advanced(WEIR_PYTHON3)
  foreach(python IN LISTS Python_EXECUTABLE WEIR_PYTHON3)
    execute_process(COMMAND "${python}" -c "import sys; print(';'.join(filter(None, sys.path)))"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      list(PREPEND paths ${found})
      break()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES paths)
  set(${out} "${paths}" PARENT_SCOPE)
endfunction()

function(weir_python_header_dirs out)
  weir_python_paths(paths)
  set(found "")
  foreach(path IN LISTS paths)
    foreach(below IN LISTS ARGN)
      if(IS_DIRECTORY "${path}/${below}")
        list(APPEND found "${path}/${below}")
      endif()
    endforeach()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
