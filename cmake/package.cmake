# find_package(ddprun) in other projects: the training kit as ddprun::trainer, with its headers, the libraries
# that it needs, and the torch that it was built with.
#
# Included last, when all libraries are known.

# ddprun_libraries_behind(<list> <target>): appends our libraries that the target needs, itself included.
function(ddprun_libraries_behind list target)
  get_target_property(known ${target} ALIASED_TARGET)
  if(known)
    set(target ${known})
  endif()
  set(found ${${list}})
  if(NOT target MATCHES "^ddprun_" OR target IN_LIST found)
    return()
  endif()
  list(APPEND found ${target})
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  foreach(link IN LISTS links)
    if(TARGET ${link})
      ddprun_libraries_behind(found ${link})
    endif()
  endforeach()
  set(${list} ${found} PARENT_SCOPE)
endfunction()

set(packaged)
ddprun_libraries_behind(packaged ddprun_trainer)
foreach(library IN LISTS packaged)
  string(REPLACE "ddprun_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ddprun")
install(TARGETS ${packaged} EXPORT ddprun
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/ddprun" COMPONENT kit)
install(EXPORT ddprun NAMESPACE ddprun:: FILE ddprun-targets.cmake
  DESTINATION "${package_dir}" COMPONENT kit)
install(DIRECTORY base rendezvous slurm trainer
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ddprun" COMPONENT kit
  FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT docs)

include(CMakePackageConfigHelpers)
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/ddprun-config.cmake.in" "${PROJECT_BINARY_DIR}/ddprun-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
# Before 1.0, any version may change its interface.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/ddprun-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ddprun-config.cmake" "${PROJECT_BINARY_DIR}/ddprun-config-version.cmake"
  DESTINATION "${package_dir}" COMPONENT kit)
