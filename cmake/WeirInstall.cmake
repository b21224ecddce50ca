# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the library, its headers without those of backends that were not built, the licence,
# and what find_package and pkg-config read.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
get_target_property(weir_type weir TYPE)
set(weir_is_shared OFF)
if(weir_type STREQUAL "SHARED_LIBRARY")
  set(weir_is_shared ON)
endif()
get_property(weir_BACKENDS GLOBAL PROPERTY WEIR_BACKENDS_BUILT)
get_property(skipped GLOBAL PROPERTY WEIR_BACKENDS_SKIPPED)

set(absent "")
foreach(name IN LISTS skipped)
  get_property(headers GLOBAL PROPERTY WEIR_BACKEND_${name}_HEADERS)
  foreach(header IN ITEMS ${name}.hpp ${headers})
    string(REPLACE "." "\\." header "${header}")
    list(APPEND absent REGEX "/weir/${header}$" EXCLUDE)
  endforeach()
endforeach()

install(TARGETS weir EXPORT weir-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" "${PROJECT_BINARY_DIR}/include/"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp" ${absent})
set(doc_dir "${CMAKE_INSTALL_DOCDIR}")
if(NOT PROJECT_IS_TOP_LEVEL) # the folder is that of the project around this one, and may have a LICENSE
  set(doc_dir "${CMAKE_INSTALL_DATAROOTDIR}/doc/weir")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${doc_dir}")

install(EXPORT weir-targets NAMESPACE weir:: DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/weir-config.cmake.in" "${PROJECT_BINARY_DIR}/weir-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weir-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weir-config.cmake" "${PROJECT_BINARY_DIR}/weir-config-version.cmake"
  DESTINATION "${package_dir}")

# Relative to the file itself, so that an installed tree may be moved; except for folders that were given with all of
# their path.
file(RELATIVE_PATH pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(PREPEND pc_prefix "\${pcfiledir}/")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
endif()
set(further_libraries "")
if(NOT weir_is_shared) # a static weir brings what it links
  set(further_libraries " -pthread -ldl")
endif()
foreach(dir IN ITEMS INCLUDEDIR LIBDIR)
  string(TOLOWER "pc_${dir}" variable)
  set(${variable} "${CMAKE_INSTALL_${dir}}")
  if(NOT IS_ABSOLUTE "${${variable}}")
    string(PREPEND ${variable} "\${prefix}/")
  endif()
endforeach()
configure_file("${CMAKE_CURRENT_LIST_DIR}/weir.pc.in" "${PROJECT_BINARY_DIR}/weir.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/weir.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
