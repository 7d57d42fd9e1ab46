{# A gold table: in a directory, if kpe_path names the directory of --out, else a table of the catalog. #}
{% macro kpe_gold(table) -%}
  {%- if var('kpe_path') -%}
    delta.`{{ var('kpe_path') }}/gold/{{ table }}`
  {%- else -%}
    {{ source('kpe', 'gold_' ~ table) }}
  {%- endif -%}
{%- endmacro %}
