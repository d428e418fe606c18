# Distributions mend a library under the version that it has, so what pkg-config tells is no proof. Where Debian's packages are, their versions
# are compared; elsewhere nobody can see it from here, and it is said which faults to look for.
#
# nghttp2 reads what anybody who reaches a fleet port sends. 1.52.0-1+deb12u3 of Debian 12 mends CVE-2023-44487 (streams that are opened and
# reset at once), CVE-2024-28182 (CONTINUATION frames without an end) and CVE-2026-27135 (an assertion that a peer can make fail).
set(NGHTTP2_FLOOR 1.52.0-1+deb12u3)
set(NGHTTP2_FAULTS "CVE-2023-44487, CVE-2024-28182 and CVE-2026-27135")

function(require_debian_version package floor faults)
  find_program(DPKG dpkg)
  find_program(DPKG_QUERY dpkg-query)
  mark_as_advanced(DPKG DPKG_QUERY)
  set(installed "")
  if(DPKG AND DPKG_QUERY AND NOT CMAKE_CROSSCOMPILING)
    execute_process(COMMAND ${DPKG_QUERY} -W "-f=\${Version}" ${package} OUTPUT_VARIABLE installed ERROR_QUIET)
  endif()
  if(NOT installed)
    message(STATUS "The patches of ${package} cannot be seen here: it should have those for ${faults}")
    return()
  endif()
  execute_process(COMMAND ${DPKG} --compare-versions ${installed} ge ${floor} RESULT_VARIABLE is_older)
  if(is_older)
    message(FATAL_ERROR "${package} is ${installed}; ${floor} mends ${faults}: apt-get update; apt-get install --only-upgrade ${package}")
  endif()
endfunction()

require_debian_version(libnghttp2-14 ${NGHTTP2_FLOOR} "${NGHTTP2_FAULTS}")
